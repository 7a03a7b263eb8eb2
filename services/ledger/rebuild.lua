-- Joined behind money/recovery-guard.lua, money/wallet.lua, jobs/retention.lua and
-- jobs/idempotency.lua: see recovery-store.ts.
-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days, cursors.
-- ARGV: the JSON of run, fence, job, nowMs, idempotencyKey or '', fingerprint, claimedAt, cursor or
-- '', cursorTo (where it was moved to), settledSeq (number of the entry that ended the job) or '',
-- settledMicros (what it charged), isClosed, and record: its fields.
-- Rebuilds a job that Redis lacks, or updates an existing one with its end in the journal.
-- Idempotent.
local keys = {
  job = KEYS[2], data_key = KEYS[3], idempotency = { KEYS[4], KEYS[5] }, cursors = KEYS[6],
}
local args = cjson.decode(ARGV[1])
local job, key, cursor = args.job, args.idempotencyKey, args.cursor

if run_id() ~= args.run or redis.call('HGET', WALLET, 'fence') ~= args.fence then
  return 'superseded'
end

local function write_record()
  -- An old file of Redis may have its claim or refusal.
  redis.call('DEL', keys.job)
  redis.call('HSET', keys.job, unpack(add_fields({}, args.record)))
end

local function write_closed()
  write_record()
  redis.call('PEXPIRE', keys.job, CLOSED_JOB_TTL_MS)
  redis.call('HDEL', WALLET, OPEN .. job)
end

local function write_open()
  redis.call('HSET', WALLET, OPEN .. job, args.nowMs)
  if redis.call('EXISTS', keys.data_key) == 1 then
    redis.call('PEXPIRE', keys.data_key, string.format('%.0f', DATA_KEY_TTL_MS))
  end
  if args.settledSeq ~= '' then
    redis.call('HSET', keys.job, 'journaledSettleSeq', args.settledSeq,
      'journaledChargeMicros', args.settledMicros)
  end
end

if args.isClosed then
  redis.call('PEXPIRE', keys.data_key, CLOSED_JOB_TTL_MS)
end
local found = redis.call('HMGET', keys.job, 'status', 'closed')
local answer = found[1] and 'known' or 'made'
if found[2] ~= '1' then
  if args.isClosed then
    write_closed()
  else
    if not found[1] then
      write_record()
    end
    write_open()
  end
end
if key ~= '' then
  local request, at = request_of(job, args.fingerprint), tonumber(args.claimedAt)
  local binding = bind(keys.idempotency, key, request, at, 'NX')
  -- An old file of Redis may have an earlier claim.
  if binding and bound_request(binding) ~= request then
    rebind(keys.idempotency, key, request, at, 'NX')
  end
end
if cursor ~= '' then
  local at = tonumber(redis.call('HGET', keys.cursors, cursor) or '-1')
  if at < tonumber(args.cursorTo) then
    redis.call('HSET', keys.cursors, cursor, args.cursorTo)
  end
end
return answer
