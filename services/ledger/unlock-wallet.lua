-- KEYS: wallet. ARGV: run, fence, the number of the last movement that was compared, why the
-- tenant is frozen or '', then, where the wallet has to be brought to the journal's end: seq,
-- available, reserved, charged, funded.
-- Lets a tenant in, as the last step of its recovery.
if run_id() ~= ARGV[1] or redis.call('HGET', KEYS[1], 'fence') ~= ARGV[2] then
  return 'moved'
end
if wallet_of(KEYS[1]).seq ~= ARGV[3] then
  return 'moved'
end
if #ARGV > 4 then
  redis.call('HSET', KEYS[1], 'seq', ARGV[5], 'available', ARGV[6], 'reserved', ARGV[7],
    'charged', ARGV[8], 'funded', ARGV[9])
end
redis.call('HDEL', KEYS[1], 'trust', 'frozen')
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'frozen', ARGV[4])
end
redis.call('HSET', KEYS[1], 'run', ARGV[1])
return 'unlocked'
