-- Gives a client the answer of another service in place of answers with certain statuses, as nginx's error_page does.
--
-- What a route asks for is in its metadata. Where the other service cannot be asked, the answer stays as it is.

local SPACE = "pilothouse.fallback"

-- Headers of a request that the other service gets as well.
local KEPT = {"accept", "accept-language", "user-agent", "x-request-id", "x-forwarded-for", "x-forwarded-proto"}

function envoy_on_request(handle)
  local asked = handle:metadata():get("fallback")
  if asked == nil then return end
  local of = handle:headers()
  local header = function(name) return of:get(name) or "" end
  local question = {[":authority"] = header(":authority")}
  for _, name in ipairs(KEPT) do question[name] = of:get(name) end
  for name, value in pairs(asked["headers"] or {}) do
    -- %% is a percent sign, in the end.
    question[name] = value:gsub("%%%%", "\1"):gsub("%%REQ%((.-)%)%%", header)
  end
  handle:streamInfo():dynamicMetadata():set(SPACE, "question", question)
end

local function replace(handle, asked, question)
  local status = handle:headers():get(":status")
  for name, value in pairs(question) do
    question[name] = value:gsub("%%RESPONSE_CODE%%", status):gsub("\1", "%%")
  end
  question[":method"] = "GET"
  question[":path"] = "/"
  -- What is to be replaced must not be sent on while the other service is asked.
  handle:body(true)
  local answer, text = handle:httpCall(asked["cluster"], question, nil,
    {timeout_ms = asked["timeout_ms"], send_xff = false})
  local headers = handle:headers()
  for _, name in ipairs({"content-encoding", "etag", "last-modified", "transfer-encoding"}) do
    headers:remove(name)
  end
  headers:replace(":status", answer[":status"])
  if answer["content-type"] ~= nil then
    headers:replace("content-type", answer["content-type"])
  else
    headers:remove("content-type")
  end
  headers:replace("content-length", tostring(handle:body(true):setBytes(text or "")))
end

function envoy_on_response(handle)
  local asked = handle:metadata():get("fallback")
  if asked == nil or asked["statuses"][handle:headers():get(":status")] == nil then return end
  local found = handle:streamInfo():dynamicMetadata():get(SPACE)
  local done, why = pcall(replace, handle, asked, found and found["question"] or {[":authority"] = ""})
  if not done then handle:logErr("no other answer: " .. tostring(why)) end
end
