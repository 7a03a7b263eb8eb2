-- KEYS: idem. ARGV: body. The first answer to a key is the answer to all its repetitions.
if redis.call('EXISTS', KEYS[1]) == 0 then
  return { ARGV[1] }
end
redis.call('HSETNX', KEYS[1], 'response', ARGV[1])
return { redis.call('HGET', KEYS[1], 'response') }
