-- KEYS: gate, job, seen, manifest, idem, active, open, data key, cursors.
-- ARGV: run, fence, job, time, idempotency key or '', fingerprint, claimedAt, acceptBy, 1 for a job
-- that needs a slot, cursor or '', where the cursor was moved to, number of the entry that ended
-- the job or '', what it charged, 1 for a job that is closed, then fields and values of its record.
-- Makes a job anew of which Redis has nothing, and tells one that it has what the journal knows.
-- Anything it did before it leaves as it is.
local keys = {
  gate = KEYS[1], job = KEYS[2], seen = KEYS[3], manifest = KEYS[4], idem = KEYS[5],
  active = KEYS[6], open = KEYS[7], data_key = KEYS[8], cursors = KEYS[9],
}
local run, fence, job, now = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local key, fingerprint, claimed_at, accept_by = ARGV[5], ARGV[6], ARGV[7], ARGV[8]
local needs_slot, cursor, cursor_to = ARGV[9] == '1', ARGV[10], ARGV[11]
local settled_seq, settled_micros, is_closed = ARGV[12], ARGV[13], ARGV[14] == '1'
local FIRST_FIELD = 15
local HEADER_KEPT_MS = 604800000
local DATA_KEY_KEPT_MS = 7862400000
local KEY_BOUND_MS = 86400000

if run_id() ~= run or redis.call('HGET', keys.gate, 'fence') ~= fence then
  return 'moved'
end

local function write_record()
  -- A claim or a refusal that an old file has of it.
  redis.call('DEL', keys.job)
  local fields = {}
  for at = FIRST_FIELD, #ARGV do
    fields[#fields + 1] = ARGV[at]
  end
  redis.call('HSET', keys.job, unpack(fields))
end

local function write_closed()
  write_record()
  redis.call('PEXPIRE', keys.job, HEADER_KEPT_MS)
  redis.call('DEL', keys.seen, keys.manifest)
  redis.call('SREM', keys.active, job)
  redis.call('ZREM', keys.open, job)
end

local function write_open(ended)
  redis.call('ZADD', keys.open, now, job)
  if redis.call('EXISTS', keys.data_key) == 1 then
    redis.call('PEXPIRE', keys.data_key, string.format('%.0f', DATA_KEY_KEPT_MS))
  end
  if settled_seq ~= '' then
    redis.call('HSET', keys.job, 'settledSeq', settled_seq, 'settledMicros', settled_micros)
    redis.call('SREM', keys.active, job)
  elseif needs_slot and ended ~= '1' then
    redis.call('SADD', keys.active, job)
  end
end

local found = redis.call('HMGET', keys.job, 'status', 'ended', 'closed')
local answer = found[1] and 'known' or 'made'
if found[3] ~= '1' then
  if is_closed then
    write_closed()
  else
    if not found[1] then
      write_record()
    end
    write_open(found[2])
  end
end
if key ~= '' and redis.call('HGET', keys.idem, 'accepted') ~= '1' then
  redis.call('DEL', keys.idem)
  redis.call('HSET', keys.idem, 'job', job, 'fingerprint', fingerprint, 'acceptBy', accept_by,
    'claimedAt', claimed_at, 'accepted', '1')
  redis.call('PEXPIREAT', keys.idem, string.format('%.0f', tonumber(claimed_at) + KEY_BOUND_MS))
end
if cursor ~= '' then
  local at = tonumber(redis.call('HGET', keys.cursors, cursor) or '-1')
  if at < tonumber(cursor_to) then
    redis.call('HSET', keys.cursors, cursor, cursor_to)
  end
end
return answer
