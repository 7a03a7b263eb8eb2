-- What the scripts of jobs share: the record's outcome, refusals, and the end with its money.

local OUTCOMES = 'outcomes'
local REFUSAL_KEPT_MS = 60000

local function record_of(key)
  local flat = redis.call('HGETALL', key)
  local fields = {}
  for at = 1, #flat, 2 do
    fields[flat[at]] = flat[at + 1]
  end
  return fields, flat
end

local function reply(kind, more, flat)
  local answer = { kind, unpack(more) }
  for _, value in ipairs(flat) do
    answer[#answer + 1] = value
  end
  return answer
end

-- What was decided of a claim before, if anything.
local function stored_outcome(job_key, outbox)
  local fields, flat = record_of(job_key)
  if fields.status then
    return reply('accepted', { entry_at(outbox, fields.reserveSeq) }, flat)
  end
  if fields.refusal then
    return reply('refused', {}, flat)
  end
  return nil, fields
end

-- Stores a refusal; a key bound to this job is free again, so that a repetition is judged anew. Of
-- a claim that is forgotten nothing changes: its job may have been accepted, and closed since.
local function refuse_job(keys, refusal)
  local required = refusal.required or '0'
  local available = refusal.available or '0'
  if redis.call('EXISTS', keys.job) == 0 then
    return { 'refused', 'refusal', refusal.code, 'forgotten', '1' }
  end
  redis.call('HSET', keys.job, 'refusal', refusal.code,
    'requiredMicros', required, 'availableMicros', available)
  local _, flat = record_of(keys.job)
  redis.call('PEXPIREAT', keys.job, text(refusal.accept_by + REFUSAL_KEPT_MS))
  if bound_job(keys.idem) == refusal.job then
    redis.call('DEL', keys.idem)
  end
  redis.call('PUBLISH', OUTCOMES, refusal.job)
  return reply('refused', {}, flat)
end

-- At the end all rows add up, though a block made from headers alone knows neither the kinds of its
-- rows nor their copies: what is no success has failed, and what is neither a hit, invalid nor a
-- duplicate was a fresh record.
local function add_up(job_key)
  local found = redis.call('HMGET', job_key, 'totalRows', 'successRecords', 'cacheHits',
    'invalidRows', 'duplicateRows')
  local total = tonumber(found[1])
  local success = math.min(tonumber(found[2]), total)
  local originals = math.max(total - tonumber(found[4]) - tonumber(found[5]), 0)
  local hits = math.min(tonumber(found[3]), originals)
  redis.call('HSET', job_key, 'successRecords', text(success),
    'failedRecords', text(total - success), 'cacheHits', text(hits),
    'freshRecords', text(originals - hits))
end

-- The movement that ends a job; of a job that was made anew the journal may know it already, and
-- money never moves twice. Returns seq and charge.
local function end_money(keys, ending)
  if ending.fields.settledSeq then
    return ending.fields.settledSeq, tonumber(ending.fields.settledMicros)
  end
  local entry = {
    tenant = ending.tenant, job = ending.job, amount = ending.amount, charge = ending.charge,
    at = ending.at,
  }
  local close_money = ending.void and void or settle
  return close_money(keys, entry), ending.charge
end

-- Charges what was won and lets go of the rest, and makes the counts final; the caller has called
-- check_settle, unless the money has moved before.
local function end_job(keys, ending)
  local seq, charge = end_money(keys, ending)
  redis.call('SREM', keys.active, ending.job)
  add_up(keys.job)
  redis.call('HSET', keys.job, 'status', ending.status, 'ended', '1',
    'endedAtMs', text(ending.at), 'chargedMicros', text(charge),
    'releasedMicros', text(ending.amount - charge), 'settleSeq', seq)
end

-- Whether all rows and all inputs of a job are there.
local function is_complete(fields)
  return fields.finishedRows == fields.totalRows and fields.inputBlocks == fields.chunks
end

local function ended_status(fields)
  return fields.status == 'cancelling' and 'cancelled' or 'completed'
end

-- The answer of tally and fail: whether the job waits to be closed, its entry, its record.
local function tallied(kind, keys)
  local fields, flat = record_of(keys.job)
  return reply(kind, { fields.ended, entry_at(keys.outbox, fields.settleSeq) }, flat)
end

-- A manifest entry as manifest.ts unpacks it.
local function packed(chunk, first_row, inputs, won)
  return struct.pack('>I4I4B', chunk, first_row, inputs) .. won
end
