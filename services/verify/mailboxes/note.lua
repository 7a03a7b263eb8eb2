-- Notes what sessions learnt of an exchange, for a day from the first note.
-- KEYS: exchange. ARGV: the JSON of any of limit, open and closed (domains that accept any name, and
-- that do not), accepted and refused (recipients), postmaster.
local key = KEYS[1]
local args = cjson.decode(ARGV[1])
local DAY_MS = 86400000
for _, name in ipairs({ 'limit', 'postmaster' }) do
  if args[name] then
    redis.call('HSET', key, name, args[name])
  end
end
for _, name in ipairs({ 'open', 'closed', 'accepted', 'refused' }) do
  if args[name] then
    redis.call('HINCRBY', key, name, args[name])
  end
end
if redis.call('PTTL', key) < 0 then
  redis.call('PEXPIRE', key, DAY_MS)
end
