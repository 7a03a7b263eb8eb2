-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days, cursors.
-- ARGV: run, fence, job, time, idempotency key or '', fingerprint, claimedAt, cursor or
-- '', where the cursor was moved to, number of the entry that ended the job or '', what it charged,
-- 1 for a job that is closed, then fields and values of its record.
-- Rebuilds a job that Redis lacks, or updates an existing one with its end in the journal.
-- Idempotent.
local keys = {
  wallet = KEYS[1], job = KEYS[2], data_key = KEYS[3], idempotency = { KEYS[4], KEYS[5] },
  cursors = KEYS[6],
}
local run, fence, job, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key, fingerprint, claimed_at = ARGV[5], ARGV[6], ARGV[7]
local cursor, cursor_to = ARGV[8], ARGV[9]
local settled_seq, settled_micros, is_closed = ARGV[10], ARGV[11], ARGV[12] == '1'
local FIRST_FIELD = 13

if run_id() ~= run or redis.call('HGET', keys.wallet, 'fence') ~= fence then
  return 'superseded'
end

local function write_record()
  -- An old file of Redis may have its claim or refusal.
  redis.call('DEL', keys.job)
  local fields = {}
  for at = FIRST_FIELD, #ARGV do
    fields[#fields + 1] = ARGV[at]
  end
  redis.call('HSET', keys.job, unpack(fields))
end

local function write_closed()
  write_record()
  redis.call('PEXPIRE', keys.job, CLOSED_JOB_TTL_MS)
  redis.call('HDEL', keys.wallet, OPEN .. job)
end

local function write_open()
  redis.call('HSET', keys.wallet, OPEN .. job, now)
  if redis.call('EXISTS', keys.data_key) == 1 then
    redis.call('PEXPIRE', keys.data_key, string.format('%.0f', DATA_KEY_TTL_MS))
  end
  if settled_seq ~= '' then
    redis.call('HSET', keys.job, 'journaledSettleSeq', settled_seq, 'journaledChargeMicros', settled_micros)
  end
end

if is_closed then
  redis.call('PEXPIRE', keys.data_key, CLOSED_JOB_TTL_MS)
end
local found = redis.call('HMGET', keys.job, 'status', 'closed')
local answer = found[1] and 'known' or 'made'
if found[2] ~= '1' then
  if is_closed then
    write_closed()
  else
    if not found[1] then
      write_record()
    end
    write_open()
  end
end
if key ~= '' then
  local request, at = request_of(job, fingerprint), tonumber(claimed_at)
  local binding = bind(keys.idempotency, key, request, at, 'NX')
  -- An old file of Redis may have an earlier claim.
  if binding and bound_request(binding) ~= request then
    rebind(keys.idempotency, key, request, at, 'NX')
  end
end
if cursor ~= '' then
  local at = tonumber(redis.call('HGET', keys.cursors, cursor) or '-1')
  if at < tonumber(cursor_to) then
    redis.call('HSET', keys.cursors, cursor, cursor_to)
  end
end
return answer
