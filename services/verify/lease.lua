-- KEYS: leases of a tenant. ARGV: owner, milliseconds. A digit a lease: 1 when it is the owner's.
local answer = {}
for at, key in ipairs(KEYS) do
  local holder = redis.call('SET', key, ARGV[1], 'PX', ARGV[2], 'NX', 'GET')
  answer[at] = (not holder or holder == ARGV[1]) and '1' or '0'
end
return table.concat(answer)
