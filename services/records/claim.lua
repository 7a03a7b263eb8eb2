-- KEYS: entries of a tenant's cache. ARGV: the owner's lease, milliseconds it lasts, then texts that
-- answer nobody any more. Gives for each entry what it holds; nothing where it holds the lease now.
local useless = {}
for at = 3, #ARGV do
  useless[ARGV[at]] = true
end
local answer = {}
for at, key in ipairs(KEYS) do
  local held = redis.call('SET', key, ARGV[1], 'PX', ARGV[2], 'NX', 'GET')
  if held and useless[held] then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    held = false
  end
  answer[at] = held
end
return answer
