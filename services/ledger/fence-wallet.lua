-- Joined behind money/recovery-guard.lua and money/wallet.lua: see recovery-store.ts.
-- KEYS: wallet. ARGV: fence, prefix of the keys of its jobs.
-- Returns the state of a locked wallet, and fences off earlier leaders. The keys of jobs are in the
-- same slot; only the wallet knows their ids.
local wallet, run = read_wallet(), run_id()
if wallet.run == run then
  return { 'unlocked' }
end
local fence, trust = unpack(redis.call('HMGET', WALLET, 'fence', 'trust'))
if tonumber(fence or '0') > tonumber(ARGV[1]) then
  return { 'fenced', fence }
end
redis.call('HSET', WALLET, 'fence', ARGV[1])
local money = { wallet.seq, wallet.available, wallet.reserved, wallet.charged, wallet.funded }
local jobs, all = {}, redis.call('HGETALL', WALLET)
for _, job in ipairs((fields_with_prefix(all, OPEN))) do
  local found = redis.call('HMGET', ARGV[2] .. job, 'status', 'createdAtMs', 'ended', 'journaledSettleSeq')
  local state = found[3] == '1' and 'ended' or found[4] and 'settled' or 'running'
  jobs[#jobs + 1] = job
  jobs[#jobs + 1] = found[2] or '0'
  jobs[#jobs + 1] = found[1] and state or 'gone'
end
local _, entries = fields_with_prefix(all, ENTRY)
return { 'waiting', run, trust or '', money, entries, jobs }
