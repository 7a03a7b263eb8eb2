-- Joined behind money/recovery-guard.lua and money/wallet.lua: see recovery-store.ts.
-- KEYS: wallet. ARGV: the JSON of run, fence, seq (of the last movement that was compared), frozen
-- (why the wallet is) or '', jobPrefix (of the keys of its jobs), restored: the fields of the
-- wallet to restore from the journal, and dropped: the numbers of entries of the outbox that are
-- not in the journal, as others have them.
-- Unlocks a wallet, as the last step of its recovery. The keys of jobs are in the same slot; only
-- the wallet knows their ids.
local args = cjson.decode(ARGV[1])
if run_id() ~= args.run or redis.call('HGET', WALLET, 'fence') ~= args.fence then
  return 'superseded'
end
-- Trust in the journal that came while it was compared is for the next comparison.
local is_trusted = redis.call('HEXISTS', WALLET, 'trust') == 1
if read_wallet().seq ~= args.seq or is_trusted and not args.trusts then
  return 'superseded'
end

-- The open jobs equal those of the journal by now.
local function slots_held()
  local held = 0
  local all = redis.call('HGETALL', WALLET)
  for _, job in ipairs((fields_with_prefix(all, OPEN))) do
    local fields = { 'quotedFresh', 'ended', 'journaledSettleSeq' }
    local fresh, ended, settled_seq = unpack(redis.call('HMGET', args.jobPrefix .. job, unpack(fields)))
    if fresh and fresh ~= '0' and ended ~= '1' and not settled_seq then
      held = held + 1
    end
  end
  return text(held)
end

local changes = add_fields({ 'run', args.run, 'slots', slots_held() }, args.restored)
if args.frozen ~= '' then
  changes[#changes + 1] = 'frozen'
  changes[#changes + 1] = args.frozen
end
for _, seq in ipairs(args.dropped) do
  redis.call('HDEL', WALLET, ENTRY .. seq)
end
redis.call('HDEL', WALLET, 'trust', 'frozen')
redis.call('HSET', WALLET, unpack(changes))
return 'unlocked'
