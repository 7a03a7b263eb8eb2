-- KEYS: wallet. Lets in a tenant that nobody can have heard of before.
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'run', run_id())
end
return 'admitted'
