-- Shared by the scripts of jobs: the record, outcomes, refusals, and the end of a job. Joined
-- behind money/recovery-guard.lua, money/wallet.lua, retention.lua and idempotency.lua.

local MAX_PUBLISHED_BYTES = 4096

-- Reads the fields of a record by name, and in a second table other named fields of its hash.
-- Scripts are atomic, so each reads the record once.
local function record_of(key, ...)
  local others = { ... }
  local names = { unpack(RECORD_FIELDS) }
  for _, name in ipairs(others) do
    names[#names + 1] = name
  end
  local values = redis.call('HMGET', key, unpack(names))
  local fields, found = {}, {}
  for at, name in ipairs(names) do
    local of = at > #RECORD_FIELDS and found or fields
    of[name] = values[at] or nil
  end
  return fields, found
end

-- The error for a script that moves no money, or nil. A job that exists and was claimed in this run
-- of the server needs no recovery guard: if a former master takes over and lacks later writes,
-- blocks are counted once more and jobs closed once more. Other jobs need the guard.
local function locked_for(fields)
  if not fields.status or fields.claimedIn ~= run_id() then
    return read_guard().locked
  end
end

-- Buffers changes, pairs of field and value, and applies them to the fields that were read. `write`
-- stores them.
local buffered = {}

local function buffer(fields, changes)
  for at = 1, #changes, 2 do
    fields[changes[at]] = changes[at + 1]
    buffered[#buffered + 1] = changes[at]
    buffered[#buffered + 1] = changes[at + 1]
  end
end

local function write(key)
  redis.call('HSET', key, unpack(buffered))
end

local function change(key, fields, changes)
  buffer(fields, changes)
  write(key)
end

-- Notifies those who wait for a job, with a record that may answer them. Every process that waits
-- for any job receives it, so a record that a sealed header makes large is left out. Inline
-- results follow on a line of their own.
local function notify(job, fields, inline_results)
  local record = fields and ' ' .. cjson.encode(fields) or ''
  local message = #record > MAX_PUBLISHED_BYTES and job or job .. record
  local has_results = (inline_results or '') ~= ''
  redis.call('PUBLISH', OUTCOMES, has_results and message .. '\n' .. inline_results or message)
end

-- A reply with a record: kind, additional values, then pairs of field and value.
local function reply(kind, more, fields)
  return add_fields({ kind, unpack(more) }, fields)
end

-- The stored outcome of a claim, or nil and its fields.
local function stored_outcome(keys)
  local fields = record_of(keys.job)
  if fields.status then
    return reply('accepted', { entry_at(fields.reserveSeq) }, fields)
  end
  if fields.refusal then
    return reply('refused', {}, fields)
  end
  return nil, fields
end

-- Stores a refusal, deletes the data key, so that nothing sealed for the request is opened again,
-- and releases the idempotency key, so that a repeated request is decided again. An expired claim
-- does not change: its job may have been accepted and closed.
local function refuse_job(keys, claim, refusal)
  local required = refusal.required or '0'
  local available = refusal.available or '0'
  if not next(claim) then
    return { 'refused', 'refusal', refusal.code, 'forgotten', '1' }
  end
  change(keys.job, claim, {
    'refusal', refusal.code, 'requiredMicros', required, 'availableMicros', available,
  })
  redis.call('PEXPIREAT', keys.job, text(refusal.accept_by + REFUSAL_TTL_MS))
  redis.call('DEL', keys.data_key)
  release(keys.idempotency, claim.idempotencyKey, refusal.job, now_ms())
  notify(refusal.job, claim)
  return reply('refused', {}, claim)
end

-- At the end successes and failures add up to all rows, though a block made from headers alone does
-- not know the duplicates of its rows: rows with a verdict and their duplicates succeeded, all
-- others failed.
local function sums_of(fields)
  local verdicts = tonumber(fields.cacheHits) + tonumber(fields.freshRecords)
  local success = math.min(
    tonumber(fields.successRecords), verdicts + tonumber(fields.duplicateRecords))
  return {
    'successRecords', text(success),
    'failedRecords', text(tonumber(fields.totalRows) - success),
  }
end

-- The rows by status and reason at the end: rows that none counts are duplicates of originals that
-- a block made from headers alone ended, and repeat them. None if they are not known: a block of an
-- older release does not state them, and an original counts with its duplicates, even lost ones.
local function verdicts_of(fields)
  local verdicts, rows = cjson.decode(fields.verdicts or '{}'), 0
  for _, number in pairs(verdicts) do
    rows = rows + number
  end
  local counted = tonumber(fields.successRecords) + tonumber(fields.failedRecords)
  if rows ~= counted or fields.duplicateRecords ~= fields.duplicateRows then
    return '{}'
  end
  local others = tonumber(fields.totalRows) - rows
  if others > 0 then
    verdicts['unknown internal'] = (verdicts['unknown internal'] or 0) + others
  end
  return cjson.encode(verdicts)
end

-- Only a job with rows to check live takes a slot of its organization, until it is settled.
local function slots_of(fields)
  return fields.quotedFresh == '0' and 0 or 1
end

-- Only live verdicts are charged, up to the reserved maximum. There are more of them only if a job
-- was decided twice, and the lists of its organization changed in between.
local function charge_of(fields)
  local live = tonumber(fields.freshRecords) * tonumber(fields.unitPriceMicros)
  return math.min(live, tonumber(fields.maxQuoteMicros))
end

-- Settles or voids the reservation of a job. The journal of a rebuilt job may have that entry
-- already; money never moves twice. Returns seq, charge and the new entry or nil.
local function end_money(ending)
  if ending.fields.journaledSettleSeq then
    return ending.fields.journaledSettleSeq, tonumber(ending.fields.journaledChargeMicros)
  end
  local entry = {
    tenant = ending.tenant, job = ending.job, amount = ending.amount, charge = ending.charge,
    at = ending.at, slots = slots_of(ending.fields),
  }
  local close_money = ending.void and void or settle
  local seq, made = close_money(entry)
  return seq, ending.charge, made
end

-- Charges live rows, releases the rest, makes the counts final, writes the buffered changes, and
-- notifies the requests that wait for the job. The caller has written nothing, as the first of this
-- may fail. Replies like tally and fail.
local function end_job(job_key, ending)
  local fields = ending.fields
  local seq, charge, entry = end_money(ending)
  local changes = sums_of(fields)
  for _, value in ipairs({
    'verdicts', verdicts_of(fields), 'status', ending.status, 'ended', '1',
    'endedAtMs', text(ending.at),
    'chargedMicros', text(charge), 'releasedMicros', text(ending.amount - charge),
    'settleSeq', seq,
  }) do
    changes[#changes + 1] = value
  end
  change(job_key, fields, changes)
  notify(ending.job, fields, ending.inline_results)
  return reply('counted', { '1', entry or entry_at(seq) }, fields)
end

-- True once all rows are finished and the inputs of all chunks are stored.
local function is_complete(fields)
  return fields.finishedRows == fields.totalRows and fields.inputBlocks == fields.chunks
end

local function ended_status(fields)
  return fields.status == 'cancelling' and 'cancelled' or 'completed'
end

-- The reply of tally and fail: whether the job has ended, its journal entry, its record.
local function tallied(kind, fields)
  return reply(kind, { fields.ended, entry_at(fields.settleSeq) }, fields)
end

-- The number of the block that was counted last, from 1 in the order in which they were.
local COUNTED = 'countedBlocks'

local function packed(chunk, first_row, inputs, won)
  return struct.pack('>I4I4B', chunk, first_row, inputs) .. won
end

-- Buffers the manifest entry of a block, as the next one that is counted.
local function buffer_entry(digest, entry, known)
  local number = text(tonumber(known[COUNTED] or '0') + 1)
  known[COUNTED] = number
  buffer({}, { BLOCK .. digest, entry, ORDER .. digest, number, COUNTED, number })
end
