-- Notes what sessions learnt of an exchange, for a day from the first note.
-- KEYS: exchange. ARGV: the JSON of any of limit, open and closed (domains that accept any name,
-- and that do not), and accepted (the egress of which it has accepted a recipient).
local key = KEYS[1]
local args = cjson.decode(ARGV[1])
local DAY_MS = 86400000
if args.limit then
  redis.call('HSET', key, 'limit', args.limit)
end
if args.accepted then
  redis.call('HSET', key, 'accepted:' .. args.accepted, 1)
end
for _, name in ipairs({ 'open', 'closed' }) do
  if args[name] then
    redis.call('HINCRBY', key, name, args[name])
  end
end
if redis.call('PTTL', key) < 0 then
  redis.call('PEXPIRE', key, DAY_MS)
end
