-- Asks a service about requests, as nginx's auth_request does, checks passwords whose hashes Envoy does not read, and lets
-- pass whom any one of several checks lets pass.
--
-- What a route asks for is in its metadata. A failure of any kind refuses the request.

local SPACE = "pilothouse.access"

-- Headers of a request that are about its connection or its body, or that say what a client states of its address.
local OWN = {
  connection = true, ["content-length"] = true, expect = true, host = true, ["keep-alive"] = true,
  ["proxy-connection"] = true, te = true, ["transfer-encoding"] = true, upgrade = true,
  ["x-original-forwarded-for"] = true, ["x-pilothouse-forwarded-for"] = true,
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

-- What stands for a name between percent signs.
local function known(handle, name, header)
  local value = header and handle:headers():get(header) or ""
  if name == "REQ" then return value end
  if name == "ESCAPED_REQ" then return escaped(value) end
  if name == "HOST" then return ((handle:headers():get(":authority") or ""):gsub(":%d+$", "")) end
  if name == "PROTOCOL" then return handle:streamInfo():protocol() end
  if name == "DOWNSTREAM_REMOTE_ADDRESS_WITHOUT_PORT" then return address(handle) end
  return ""
end

-- How long one text may become that requests have a part in, and all that a service is asked with.
local LONGEST, TOGETHER = 65536, 262144

-- Puts what is known of the request in place of %REQ(name)% and its like; %% is a percent sign. What would become too long is
-- an error, before it is made.
local function filled(handle, template)
  local parts, at, length = {}, 1, #template
  while true do
    local sign = template:find("%", at, true)
    if sign == nil then break end
    parts[#parts + 1] = template:sub(at, sign - 1)
    local name, header, after = template:match("^%%([%u_]+)%((.-)%)%%()", sign)
    if name == nil then name, after = template:match("^%%([%u_]*)%%()", sign) end
    if name == nil then name, after = "", sign + 1 end
    local value = name == "" and "%" or known(handle, name, header)
    length = length + #value
    if length > LONGEST then error("a text about this request is too long", 0) end
    parts[#parts + 1] = value
    at = after
  end
  parts[#parts + 1] = template:sub(at)
  return table.concat(parts)
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

local SINES, TURNS = {}, {7, 12, 17, 22, 5, 9, 14, 20, 4, 11, 16, 23, 6, 10, 15, 21}
for i = 0, 63 do SINES[i] = bit.tobit(math.floor(math.abs(math.sin(i + 1)) * 2 ^ 32)) end

local function little(number)
  local band, shr = bit.band, bit.rshift
  return string.char(band(number, 255), band(shr(number, 8), 255), band(shr(number, 16), 255), band(shr(number, 24), 255))
end

local function md5(text)
  local band, bor, bxor, bnot = bit.band, bit.bor, bit.bxor, bit.bnot
  local rol, shl, tobit = bit.rol, bit.lshift, bit.tobit
  text = text .. "\128" .. ("\0"):rep((55 - #text) % 64) .. little(#text * 8) .. "\0\0\0\0"
  local h1, h2, h3, h4 = 0x67452301, tobit(0xefcdab89), tobit(0x98badcfe), 0x10325476
  local w = {}
  for at = 1, #text, 64 do
    for i = 0, 15 do
      local a, b, c, d = text:byte(at + i * 4, at + i * 4 + 3)
      w[i] = bor(a, shl(b, 8), shl(c, 16), shl(d, 24))
    end
    local a, b, c, d = h1, h2, h3, h4
    for i = 0, 63 do
      local f, from
      if i < 16 then f, from = bxor(d, band(b, bxor(c, d))), i
      elseif i < 32 then f, from = bxor(c, band(d, bxor(b, c))), (5 * i + 1) % 16
      elseif i < 48 then f, from = bxor(b, c, d), (3 * i + 5) % 16
      else f, from = bxor(c, bor(b, bnot(d))), (7 * i) % 16 end
      local turned = rol(tobit(a + f + SINES[i] + w[from]), TURNS[math.floor(i / 16) * 4 + i % 4 + 1])
      a, d, c, b = d, c, b, tobit(b + turned)
    end
    h1, h2, h3, h4 = tobit(h1 + a), tobit(h2 + b), tobit(h3 + c), tobit(h4 + d)
  end
  return little(h1) .. little(h2) .. little(h3) .. little(h4)
end

-- What `htpasswd` makes of a password unless it is told otherwise: MD5 a thousand times.
local function apr1(password, salt)
  local once = md5(password .. salt .. password)
  local text, rest = {password, "$apr1$", salt}, #password
  while rest > 0 do
    text[#text + 1] = once:sub(1, rest)
    rest = rest - 16
  end
  rest = #password
  while rest > 0 do
    text[#text + 1] = rest % 2 == 1 and "\0" or password:sub(1, 1)
    rest = math.floor(rest / 2)
  end
  local sum = md5(table.concat(text))
  for i = 0, 999 do
    local odd = i % 2 == 1
    local first, last = odd and password or sum, odd and sum or password
    sum = md5(first .. (i % 3 ~= 0 and salt or "") .. (i % 7 ~= 0 and password or "") .. last)
  end
  local digits = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
  local shown = {}
  local show = function(value, count)
    for _ = 1, count do
      local digit = value % 64
      shown[#shown + 1] = digits:sub(digit + 1, digit + 1)
      value = (value - digit) / 64
    end
  end
  for _, at in ipairs({{1, 7, 13}, {2, 8, 14}, {3, 9, 15}, {4, 10, 16}, {5, 11, 6}}) do
    local a, b, c = sum:byte(at[1]), sum:byte(at[2]), sum:byte(at[3])
    show(a * 65536 + b * 256 + c, 4)
  end
  show(sum:byte(12), 2)
  return table.concat(shown)
end

-- Passwords that a worker of the proxy hashes in a second for the users of one owner: each costs it some milliseconds, which
-- whoever guesses would take from the owner's other users. Those of another owner have their own.
local HASHED = 30
-- How many right passwords are remembered of an owner, and how many owners.
local REMEMBERED, OWNERS = 1000, 1000

-- What is known of owners: passwords that were found to be right, by what they are hashed to here, as a thousand times MD5 for
-- each request is too much, and how many were hashed in the second.
local owners, count = {}, 0

local function record(owner)
  -- Routes of before an update name none.
  owner = owner or ""
  local found = owners[owner]
  if found == nil then
    if count >= OWNERS then owners, count = {}, 0 end
    found = {right = {}, kept = 0, second = 0, hashed = 0}
    owners[owner], count = found, count + 1
  end
  return found
end

-- Whether a password is right; not known, and true behind it, where too many of the owner were hashed in this second.
local function is_right(handle, password, known, owner)
  local salt, hash = known:match("^%$apr1%$([^$]+)%$(.+)$")
  if salt == nil then return "{SHA}" .. handle:base64Escape(sha1(password)) == known end
  if #password > 72 then return false end
  local of = record(owner)
  local key = sha1(known .. password)
  if of.right[key] then return true end
  local now = os.time()
  if now ~= of.second then of.second, of.hashed = now, 0 end
  if of.hashed >= HASHED then return false, true end
  of.hashed = of.hashed + 1
  if apr1(password, salt) ~= hash then return false end
  if of.kept >= REMEMBERED then of.right, of.kept = {}, 0 end
  of.right[key], of.kept = true, of.kept + 1
  return true
end

-- The hash of a user's password, in lines of names and hashes. Names have no colons, so a line break in one finds nothing.
local function hash_of(users, name)
  local _, last = ("\n" .. users):find("\n" .. name .. ":", 1, true)
  return last and users:match("^[^\n]*", last)
end

-- Whether a request has the name and password of a user; not known, and true behind it, where that cannot be said now.
local function is_user(handle, users, owner)
  local scheme, credentials = (handle:headers():get("authorization") or ""):match("^(%a+) +(%S+)$")
  if scheme == nil or scheme:lower() ~= "basic" or #credentials > 4096 then return false end
  local name, password = decoded(credentials):match("^([^:]*):(.*)$")
  local known = name and hash_of(users, name)
  if known == nil then return false end
  return is_right(handle, password, known, owner)
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
  -- The address that the proxy trusts: what clients state there themselves is nobody's word.
  local client = address(handle)
  headers["x-real-ip"] = client
  headers["x-forwarded-for"] = client
  local length = 0
  for name, value in pairs(asked["headers"] or {}) do
    headers[name] = filled(handle, value)
    length = length + #headers[name]
    if length > TOGETHER then error("the texts about this request are too long", 0) end
  end
  headers[":method"] = asked["method"] or method
  headers[":path"] = filled(handle, asked["path"])
  headers[":authority"] = filled(handle, asked["authority"])
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

-- The answer to who has not the name and password of a user, or of whom that cannot be said now.
local function login(asked, busy)
  if busy then return {[":status"] = "429", ["retry-after"] = "1"}, "refused: too many passwords to look at" end
  return {[":status"] = "401", ["www-authenticate"] = 'Basic realm="' .. (asked["realm"] or "") .. '"'}, "refused"
end

-- Lets pass what any one of several checks lets pass.
local function check_any(handle, asked)
  if asked["addresses"] and is_near(handle) then return nil end
  local users = asked["users"]
  local known, busy = false, false
  if users ~= nil then known, busy = is_user(handle, users, asked["owner"]) end
  if known then return nil end
  local external = asked["external"]
  if external ~= nil then return refusal(handle, external) end
  if users ~= nil then return login(asked, busy) end
  return {[":status"] = "403"}, "refused"
end

local function check(handle, asked)
  if asked["any"] then return check_any(handle, asked) end
  local users, external = asked["users"], asked["external"]
  if users ~= nil then
    local known, busy = is_user(handle, users, asked["owner"])
    if not known then return login(asked, busy) end
  end
  if external ~= nil then return refusal(handle, external) end
  return nil
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
