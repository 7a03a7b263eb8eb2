-- What the scripts of jobs share: the record's outcome, refusals, and the end with its money.

local OUTCOMES = 'outcomes'
local REFUSAL_KEPT_MS = 60000

-- The fields of a record by name, and others of its hash if they are named. It is read once a
-- script: nobody else changes it meanwhile.
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

-- What keeps a script that moves no money from acting on a job, or nothing. A job that is there and
-- was claimed in this run of the server needs no gate: even where a former master leads again, and
-- lacks what another one wrote meanwhile, blocks are counted once more and jobs closed once more.
-- That a job is not there is said behind the gate alone.
local function shut_for(fields, wallet_key)
  if not fields.status or fields.claimedIn ~= run_id() then
    return gate_of(wallet_key).shut
  end
end

-- For a script that moves no money: what keeps it from acting on the job, or nothing, then the
-- status and the named fields of the record.
local function guarded_fields(wallet_key, job_key, ...)
  local found = redis.call('HMGET', job_key, 'claimedIn', 'status', ...)
  return shut_for({ claimedIn = found[1], status = found[2] }, wallet_key), unpack(found, 2)
end

-- Notes fields and values in turn of a record, and changes what was read of it; `write` is to
-- follow.
local noted = {}

local function note(fields, changes)
  for at = 1, #changes, 2 do
    fields[changes[at]] = changes[at + 1]
    noted[#noted + 1] = changes[at]
    noted[#noted + 1] = changes[at + 1]
  end
end

local function write(key)
  redis.call('HSET', key, unpack(noted))
end

local function change(key, fields, changes)
  note(fields, changes)
  write(key)
end

-- An answer with a record: what is said of it, then its fields and values in turn.
local function reply(kind, more, fields)
  local answer = { kind, unpack(more) }
  for name, value in pairs(fields) do
    answer[#answer + 1] = name
    answer[#answer + 1] = value
  end
  return answer
end

-- What was decided of a claim before, if anything.
local function stored_outcome(keys)
  local fields = record_of(keys.job)
  if fields.status then
    return reply('accepted', { entry_at(keys.wallet, fields.reserveSeq) }, fields)
  end
  if fields.refusal then
    return reply('refused', {}, fields)
  end
  return nil, fields
end

-- Stores a refusal; a key bound to this job is free again, so that a repetition is judged anew. Of
-- a claim that is forgotten nothing changes: its job may have been accepted, and closed since.
local function refuse_job(keys, claim, refusal)
  local required = refusal.required or '0'
  local available = refusal.available or '0'
  if not next(claim) then
    return { 'refused', 'refusal', refusal.code, 'forgotten', '1' }
  end
  change(keys.job, claim, {
    'refusal', refusal.code, 'requiredMicros', required, 'availableMicros', available,
  })
  redis.call('PEXPIREAT', keys.job, text(refusal.accept_by + REFUSAL_KEPT_MS))
  if bound_job(keys.idem) == refusal.job then
    redis.call('DEL', keys.idem)
  end
  redis.call('PUBLISH', OUTCOMES, refusal.job)
  return reply('refused', {}, claim)
end

-- At the end successes and failures add up to all rows, though a block made from headers alone
-- lacks the copies of its rows: a success has a verdict of its own or repeats one, and all other
-- rows have failed.
local function sums_of(fields)
  local verdicts = tonumber(fields.cacheHits) + tonumber(fields.freshRecords)
  local success = math.min(
    tonumber(fields.successRecords), verdicts + tonumber(fields.duplicateRecords))
  return {
    'successRecords', text(success),
    'failedRecords', text(tonumber(fields.totalRows) - success),
  }
end

-- Only a job with rows to check live takes one of its tenant's slots, until its money has moved.
local function slots_of(fields)
  return fields.quotedFresh == '0' and 0 or 1
end

-- The movement that ends a job; of a job that was made anew the journal may know it already, and
-- money never moves twice. Returns seq, charge and the entry that was made, if one was.
local function end_money(keys, ending)
  if ending.fields.settledSeq then
    note_progress(keys, ending.job, ending.at)
    return ending.fields.settledSeq, tonumber(ending.fields.settledMicros)
  end
  local entry = {
    tenant = ending.tenant, job = ending.job, amount = ending.amount, charge = ending.charge,
    at = ending.at, slots = slots_of(ending.fields),
  }
  local close_money = ending.void and void or settle
  local seq, made = close_money(keys, entry)
  return seq, ending.charge, made
end

-- Charges what was won and lets go of the rest, makes the counts final, and writes all that was
-- noted; the caller has called check_settle, unless the money has moved before. Answers as tally
-- and fail do.
local function end_job(keys, ending)
  local fields = ending.fields
  local seq, charge, entry = end_money(keys, ending)
  local changes = sums_of(fields)
  for _, value in ipairs({
    'status', ending.status, 'ended', '1', 'endedAtMs', text(ending.at),
    'chargedMicros', text(charge), 'releasedMicros', text(ending.amount - charge),
    'settleSeq', seq,
  }) do
    changes[#changes + 1] = value
  end
  change(keys.job, fields, changes)
  return reply('counted', { '1', entry or entry_at(keys.wallet, seq) }, fields)
end

-- Whether all rows and all inputs of a job are there.
local function is_complete(fields)
  return fields.finishedRows == fields.totalRows and fields.inputBlocks == fields.chunks
end

local function ended_status(fields)
  return fields.status == 'cancelling' and 'cancelled' or 'completed'
end

-- The answer of tally and fail: whether the job waits to be closed, its entry, its record.
local function tallied(kind, keys, fields)
  return reply(kind, { fields.ended, entry_at(keys.wallet, fields.settleSeq) }, fields)
end

-- A manifest entry as manifest.ts unpacks it, of the block with the digest that follows this name.
local BLOCK = 'block:'

local function packed(chunk, first_row, inputs, won)
  return struct.pack('>I4I4B', chunk, first_row, inputs) .. won
end
