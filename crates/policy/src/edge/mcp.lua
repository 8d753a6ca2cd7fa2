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
-- The longest event that is held back, the shortest that may name an address, and how much of a stream is looked at.
local LONGEST = 8192
local SHORTEST = #"event:endpoint\n"
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

-- Where the first event ends that has not ended before a place in a text; nil where none does.
local function ending(text, from)
  local at = text:find("[\r\n]", from)
  while at ~= nil do
    local a, b, c = text:byte(at, at + 2)
    if a == b then return at + 1 end
    if a == 10 and b == 13 and c == 10 then return at + 2 end
    at = text:find("[\r\n]", at + 1)
  end
  return nil
end

-- The first event of a text that names the address: where it begins and ends, and how clients are told it. Otherwise where the
-- event begins that has not ended. Nothing ends before `from`.
local function search(text, from, asked, token)
  local start, last = 1, ending(text, from)
  while last ~= nil do
    if last - start >= SHORTEST then
      local event, found = rewritten(text:sub(start, last), asked, token)
      if found then return start, last, event end
    end
    start, last = last + 1, ending(text, last + 1)
  end
  return start
end

-- Each byte is looked at once, however the stream is cut into chunks: of what is held back only the end again.
local function follow(handle, asked, token)
  local held, seen = "", 0
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    local looked = math.min(length, LOOKED_AT - seen)
    seen = seen + looked
    local text = looked > 0 and held .. chunk:getBytes(0, looked) or held
    local start, last, event = search(text, math.max(1, #held - 1), asked, token)
    held = text:sub((last or start - 1) + 1)
    local out = text:sub(1, start - 1) .. (event or "")
    local is_enough = event ~= nil or seen >= LOOKED_AT or #held > LONGEST
    if is_enough then
      local rest = looked < length and chunk:getBytes(looked, length - looked) or ""
      chunk:setBytes(out .. held .. rest)
      return
    end
    chunk:setBytes(out)
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
