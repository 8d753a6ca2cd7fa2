-- Keeps a session of MCP with the endpoint that made it, and tells clients other paths than the server's.
--
-- What a route asks for is in its metadata. Which endpoint answered, and which one is to be asked, goes through a header between
-- this script and the filter of sessions behind it. Clients keep it as a part of what names their session: of the header
-- mcp-session-id, or of the address that the first event of a stream tells them. An endpoint that is gone is not asked for: then
-- another one answers that it does not know the session.

local SPACE = "pilothouse.mcp"
local ENDPOINT = "x-pilothouse-endpoint"
local PARAMETER = "pilothouse-endpoint"
local SESSION = "mcp-session-id"
-- The longest event that is looked at, and how much of a stream is.
local LONGEST = 8192
local LOOKED_AT = 65536

-- A path without the parameter, and its value.
local function split(path)
  local before, token, after = path:match("^(.-[?&])" .. PARAMETER:gsub("%-", "%%-") .. "=(%w+)(.*)$")
  if before == nil or (after ~= "" and after:sub(1, 1) ~= "&") then return path, nil end
  if after == "" then return before:sub(1, -2), token end
  return before .. after:sub(2), token
end

function envoy_on_request(handle)
  local asked = handle:metadata():get("mcp")
  if asked == nil then return end
  local headers = handle:headers()
  headers:remove(ENDPOINT)
  local token
  if asked["events"] then
    local path
    path, token = split(headers:get(":path") or "")
    if token ~= nil then headers:replace(":path", path) end
    -- Events that are compressed cannot be read.
    headers:remove("accept-encoding")
  else
    local session, endpoint = (headers:get(SESSION) or ""):match("^(.+)~(%w+)$")
    if session ~= nil then
      headers:replace(SESSION, session)
      token = endpoint
    end
  end
  if token ~= nil and asked["binds"] then
    headers:add(ENDPOINT, token .. string.rep("=", -#token % 4))
    handle:streamInfo():dynamicMetadata():set(SPACE, "endpoint", token)
  end
end

-- The path of the server as clients say it.
local function moved(path, asked)
  local from, to = asked["from"], asked["to"]
  if from == nil or (path ~= from and path:sub(1, #from + 1) ~= from .. "/") then return path end
  local new = to .. path:sub(#from + 1)
  return new == "" and "/" or new
end

-- Where messages are sent, as clients are told.
local function address(told, asked, token)
  -- The server's own name is not the gateway's.
  local path = told:gsub("^%a[%w+.-]*://[^/?#]*", "", 1)
  local query
  path, query = path:match("^([^?#]*)(.*)$")
  if path == "" or path:sub(1, 1) == "/" then path = moved(path == "" and "/" or path, asked) end
  if token == nil then return path .. query end
  local sign = query:sub(1, 1) == "?" and "&" or "?"
  local rest, fragment = query:match("^([^#]*)(.*)$")
  return path .. rest .. sign .. PARAMETER .. "=" .. token .. fragment
end

-- An event as clients are told, and whether it is the one that names the address.
local function rewritten(event, asked, token)
  local lines = "\n" .. event
  if not lines:find("[\r\n]event: ?endpoint[\r\n]") then return event, false end
  lines = lines:gsub("([\r\n]data: ?)([^\r\n]*)", function(field, told)
    return field .. address(told, asked, token)
  end, 1)
  return lines:sub(2), true
end

-- Where the first event of a text ends; nil where it does not.
local function ending(text)
  local _, a = text:find("\n\r?\n")
  local _, b = text:find("\r\r", 1, true)
  if a ~= nil and b ~= nil then return math.min(a, b) end
  return a or b
end

local function follow(handle, asked, token)
  local held, seen = "", 0
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length > 0 then held = held .. chunk:getBytes(0, length) end
    local out, found = "", false
    while not found do
      local last = ending(held)
      if last == nil then break end
      local event
      event, found = rewritten(held:sub(1, last), asked, token)
      out, held, seen = out .. event, held:sub(last + 1), seen + last
    end
    local is_enough = found or seen > LOOKED_AT or #held > LONGEST
    chunk:setBytes(is_enough and out .. held or out)
    if is_enough then return end
  end
end

function envoy_on_response(handle)
  local asked = handle:metadata():get("mcp")
  if asked == nil then return end
  local headers = handle:headers()
  local token = headers:get(ENDPOINT)
  headers:remove(ENDPOINT)
  if token ~= nil then
    token = token:match("^(%w+)=*$")
  else
    local kept = handle:streamInfo():dynamicMetadata():get(SPACE)
    token = kept and kept["endpoint"]
  end
  if not asked["binds"] then token = nil end
  if not asked["events"] then
    local session = headers:get(SESSION)
    if session ~= nil and token ~= nil then headers:replace(SESSION, session .. "~" .. token) end
    return
  end
  local kind = (headers:get("content-type") or ""):lower()
  if headers:get(":status") ~= "200" or kind:sub(1, 17) ~= "text/event-stream" then return end
  if headers:get("content-encoding") ~= nil then return end
  headers:remove("content-length")
  follow(handle, asked, token)
end
