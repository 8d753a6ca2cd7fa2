-- Removes the headers of a request whose names have underscores, where the metadata of its route says so.

function envoy_on_request(handle)
  if not handle:metadata():get("drop") then return end
  local headers, found = handle:headers(), {}
  -- Nothing may be removed while they are gone through.
  for name in pairs(headers) do
    if name:find("_", 1, true) then found[#found + 1] = name end
  end
  for _, name in ipairs(found) do headers:remove(name) end
end
