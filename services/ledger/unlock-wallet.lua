-- KEYS: wallet. ARGV: run, fence, seq of the last movement that was compared, why the wallet is
-- frozen or '', prefix of the keys of its jobs, then, to restore the wallet from the journal: seq,
-- available, reserved, charged, funded.
-- Unlocks a wallet, as the last step of its recovery. The keys of jobs are in the same slot; only
-- the wallet knows their ids.
if run_id() ~= ARGV[1] or redis.call('HGET', KEYS[1], 'fence') ~= ARGV[2] then
  return 'superseded'
end
if wallet_of(KEYS[1]).seq ~= ARGV[3] then
  return 'superseded'
end

-- The open jobs equal those of the journal by now.
local function slots_held()
  local held = 0
  local all = redis.call('HGETALL', KEYS[1])
  for _, job in ipairs((fields_with_prefix(all, OPEN))) do
    local fields = { 'quotedFresh', 'ended', 'journaledSettleSeq' }
    local fresh, ended, settled_seq = unpack(redis.call('HMGET', ARGV[5] .. job, unpack(fields)))
    if fresh and fresh ~= '0' and ended ~= '1' and not settled_seq then
      held = held + 1
    end
  end
  return text(held)
end

local changes = { 'run', ARGV[1], 'slots', slots_held() }
for at, name in ipairs({ 'seq', 'available', 'reserved', 'charged', 'funded' }) do
  if ARGV[5 + at] then
    changes[#changes + 1] = name
    changes[#changes + 1] = ARGV[5 + at]
  end
end
if ARGV[4] ~= '' then
  changes[#changes + 1] = 'frozen'
  changes[#changes + 1] = ARGV[4]
end
redis.call('HDEL', KEYS[1], 'trust', 'frozen')
redis.call('HSET', KEYS[1], unpack(changes))
return 'unlocked'
