-- Asks a service about requests, as nginx's auth_request does, and lets pass whom any one of several checks lets pass.
--
-- What a route asks for is in its metadata. A failure of any kind refuses the request.

local SPACE = "pilothouse.access"

-- Headers of a request that are about its connection or its body.
local OWN = {
  connection = true, ["content-length"] = true, expect = true, host = true, ["keep-alive"] = true,
  ["proxy-connection"] = true, te = true, ["transfer-encoding"] = true, upgrade = true,
}

-- Statuses with which nginx adds headers to an answer.
local GOOD = {
  ["200"] = true, ["201"] = true, ["204"] = true, ["206"] = true, ["301"] = true, ["302"] = true,
  ["303"] = true, ["304"] = true, ["307"] = true, ["308"] = true,
}

local function address(handle)
  local text = handle:streamInfo():downstreamRemoteAddress()
  return (text:gsub(":%d+$", ""):gsub("^%[(.*)%]$", "%1"))
end

local function escaped(text)
  return (text:gsub("[^%w%-%._~]", function(c) return string.format("%%%02X", c:byte()) end))
end

-- Puts what is known of the request in place of %REQ(name)% and its like; %% is a percent sign.
local function filled(handle, template)
  local header = function(name) return handle:headers():get(name) or "" end
  local text = template:gsub("%%%%", "\1")
  text = text:gsub("%%ESCAPED_REQ%((.-)%)%%", function(name) return escaped(header(name)) end)
  text = text:gsub("%%REQ%((.-)%)%%", header)
  text = text:gsub("%%PROTOCOL%%", function() return handle:streamInfo():protocol() end)
  text = text:gsub("%%DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT%%", function() return address(handle) end)
  return (text:gsub("\1", "%%"))
end

local function sha1(text)
  local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
  local rol, shl, shr = bit.rol, bit.lshift, bit.rshift
  local bits = #text * 8
  local length = string.char(band(shr(bits, 24), 255), band(shr(bits, 16), 255), band(shr(bits, 8), 255), band(bits, 255))
  text = text .. "\128" .. ("\0"):rep((55 - #text) % 64) .. "\0\0\0\0" .. length
  local h = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0}
  for at = 1, #text, 64 do
    local w = {}
    for i = 0, 15 do
      local a, b, c, d = text:byte(at + i * 4, at + i * 4 + 3)
      w[i] = bor(shl(a, 24), shl(b, 16), shl(c, 8), d)
    end
    for i = 16, 79 do
      w[i] = rol(bxor(w[i - 3], w[i - 8], w[i - 14], w[i - 16]), 1)
    end
    local a, b, c, d, e = h[1], h[2], h[3], h[4], h[5]
    for i = 0, 79 do
      local f, k
      if i < 20 then f, k = bxor(d, band(b, bxor(c, d))), 0x5a827999
      elseif i < 40 then f, k = bxor(b, c, d), 0x6ed9eba1
      elseif i < 60 then f, k = bor(band(b, c), band(d, bor(b, c))), 0x8f1bbcdc
      else f, k = bxor(b, c, d), 0xca62c1d6 end
      local next = bit.tobit(rol(a, 5) + f + e + k + w[i])
      a, b, c, d, e = next, a, rol(b, 30), c, d
    end
    h = {bit.tobit(h[1] + a), bit.tobit(h[2] + b), bit.tobit(h[3] + c), bit.tobit(h[4] + d), bit.tobit(h[5] + e)}
  end
  local bytes = {}
  for i = 1, 5 do
    for shift = 24, 0, -8 do
      bytes[#bytes + 1] = string.char(band(shr(h[i], shift), 255))
    end
  end
  return table.concat(bytes)
end

local ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"

local function decoded(text)
  local bytes, value, bits = {}, 0, 0
  for c in text:gmatch("[%w+/]") do
    value = value * 64 + ALPHABET:find(c, 1, true) - 1
    bits = bits + 6
    if bits >= 8 then
      bits = bits - 8
      local byte = math.floor(value / 2 ^ bits)
      bytes[#bytes + 1] = string.char(byte)
      value = value - byte * 2 ^ bits
    end
  end
  return table.concat(bytes)
end

-- Whether a request has the name and password of a user.
local function is_user(handle, users)
  local scheme, credentials = (handle:headers():get("authorization") or ""):match("^(%a+) +(%S+)$")
  if scheme == nil or scheme:lower() ~= "basic" or #credentials > 4096 then return false end
  local name, password = decoded(credentials):match("^([^:]*):(.*)$")
  local known = name and users[name]
  return known ~= nil and "{SHA}" .. handle:base64Escape(sha1(password)) == known
end

-- Whether the filter before this one found that the client has one of the wanted addresses.
local function is_near(handle)
  local found = handle:streamInfo():dynamicMetadata():get("envoy.filters.http.rbac")
  return found ~= nil and found["pilothouse_addresses_shadow_engine_result"] == "allowed"
end

local function question(handle, asked)
  local headers = {}
  for name, value in pairs(handle:headers()) do
    if name:sub(1, 1) ~= ":" and not OWN[name] then
      local other = headers[name]
      if other == nil then headers[name] = value
      elseif type(other) == "table" then other[#other + 1] = value
      else headers[name] = {other, value} end
    end
  end
  local of = handle:headers()
  local method, scheme = of:get(":method"), of:get("x-forwarded-proto") or of:get(":scheme") or "http"
  local host, path = of:get(":authority") or "", of:get(":path") or "/"
  headers["x-original-method"] = method
  headers["x-original-url"] = scheme .. "://" .. host .. path
  headers["x-original-uri"] = path
  headers["x-auth-request-redirect"] = path
  headers["x-forwarded-host"] = host
  headers["x-real-ip"] = address(handle)
  for name, value in pairs(asked["headers"] or {}) do
    headers[name] = filled(handle, value)
  end
  headers[":method"] = asked["method"] or method
  headers[":path"] = asked["path"]
  headers[":authority"] = asked["authority"]
  headers[":scheme"] = asked["scheme"]
  return headers
end

-- Asks the service. Nothing where it allows the request; otherwise the answer.
local function refusal(handle, asked)
  local answer = handle:httpCall(asked["cluster"], question(handle, asked), nil,
    {timeout_ms = asked["timeout_ms"], return_duplicate_headers = true, send_xff = false})
  local status = answer[":status"]
  local cookie = answer["set-cookie"]
  if status:sub(1, 1) == "2" then
    for _, name in ipairs(asked["to_backend"] or {}) do
      -- What the client sent under that name is nobody's word.
      handle:headers():remove(name)
      local values = answer[name]
      if type(values) ~= "table" then values = {values} end
      for _, value in ipairs(values) do handle:headers():add(name, value) end
    end
    if cookie ~= nil then
      if type(cookie) ~= "table" then cookie = {cookie} end
      handle:streamInfo():dynamicMetadata():set(SPACE, "cookies", cookie)
    end
    return nil
  end
  if status == "401" and asked["signin"] ~= nil then
    return {[":status"] = "302", location = filled(handle, asked["signin"]), ["set-cookie"] = cookie}, ""
  end
  if status == "401" or status == "403" then
    return {[":status"] = status, ["www-authenticate"] = answer["www-authenticate"], ["set-cookie"] = cookie}, "refused"
  end
  return {[":status"] = "503"}, "refused: no answer about this request"
end

local function check(handle, asked)
  if asked["addresses"] and is_near(handle) then return nil end
  local users = asked["users"]
  if users ~= nil and is_user(handle, users) then return nil end
  local external = asked["external"]
  if external ~= nil then return refusal(handle, external) end
  if users ~= nil then
    return {[":status"] = "401", ["www-authenticate"] = 'Basic realm="' .. (asked["realm"] or "") .. '"'}, "refused"
  end
  return {[":status"] = "403"}, "refused"
end

function envoy_on_request(handle)
  local asked = handle:metadata():get("access")
  if asked == nil then return end
  local done, answer, body = pcall(check, handle, asked)
  if not done then
    handle:logErr("refused: " .. tostring(answer))
    answer, body = {[":status"] = "503"}, "refused: no answer about this request"
  end
  if answer ~= nil then handle:respond(answer, body) end
end

function envoy_on_response(handle)
  local asked = handle:metadata():get("access")
  if asked == nil or asked["external"] == nil then return end
  local found = handle:streamInfo():dynamicMetadata():get(SPACE)
  if found == nil or found["cookies"] == nil then return end
  if not asked["external"]["always_set_cookie"] and not GOOD[handle:headers():get(":status")] then return end
  for _, cookie in ipairs(found["cookies"]) do
    handle:headers():add("set-cookie", cookie)
  end
end
