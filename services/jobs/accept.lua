-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- Reserves the maximum price and stores the job, or stores the refusal.
-- KEYS: wallet, job, data key, idempotency keys of even days and of odd days, cursors, wallet of
-- the organization's other mode.
-- ARGV: the JSON of tenant, job, idempotencyKey or '', acceptByMs, freshChecks (rows to check
-- live), maxSlots, maxQuoteMicros, unitPriceMicros, chargeableRows, header (base64), cursor of a
-- feed job or '', its required position and its new position (from, to), and record: its other
-- fields.
local args = cjson.decode(ARGV[1])
local keys = {
  job = KEYS[2], data_key = KEYS[3], idempotency = { KEYS[4], KEYS[5] },
  cursors = KEYS[6], other_wallet = KEYS[7],
}
local BEGINNING = '-1'

local guard = read_guard()
if guard.locked then
  return guard.locked
end

local tenant, job, has_key = args.tenant, args.job, args.idempotencyKey ~= ''
local accept_by = whole_number(args.acceptByMs, 'acceptBy')
local taken = slots_of({ quotedFresh = args.freshChecks })
local slots = whole_number(args.maxSlots, 'the number of slots')
local maximum = whole_number(args.maxQuoteMicros, 'the maximum')
local price = whole_number(args.unitPriceMicros, 'the unit price')
local rows = whole_number(args.chargeableRows, 'the number of rows')
local cursor, from, to = args.cursor, args.from, args.to

-- Live and test jobs of an organization share its slots.
local function slots_in_use()
  local other = redis.call('HGET', keys.other_wallet, 'slots') or '0'
  return tonumber(read_wallet().slots) + tonumber(other)
end

-- The reason to refuse the job, or nil.
local function refusal_of(now, claim)
  -- A restarted server may have lost an announced refusal of the claim, or that another claim has
  -- taken over its idempotency key. No refusal is final while the wallet is frozen: see refuse.lua.
  if now >= accept_by or claim.claimedIn ~= guard.run then
    return { code = guard.frozen and 'frozen' or 'expired' }
  end
  if cursor ~= '' and (redis.call('HGET', keys.cursors, cursor) or BEGINNING) ~= from then
    return { code = 'cursor_moved' }
  end
  if claim.quoteOnly == '1' then
    return { code = 'quoted' }
  end
  if guard.frozen then
    return { code = 'frozen' }
  end
  if taken > 0 and slots_in_use() >= slots then
    return { code = 'concurrent_jobs_limit' }
  end
  local available = read_wallet().available
  if tonumber(available) < maximum then
    return { code = 'insufficient_balance', required = text(maximum), available = available }
  end
end

local function write_record(now, claim, reserve_seq)
  local fields = {
    'id', job, 'status', 'queued', 'unitPriceMicros', text(price), 'maxQuoteMicros', text(maximum),
    'header', args.header, 'updatedAtMs', text(now), 'announced', '0', 'ended', '0', 'closed', '0',
    'endedAtMs', '0', 'finishedRows', '0', 'inputBlocks', '0',
    'cacheHits', '0', 'freshRecords', '0', 'invalidRecords', '0', 'duplicateRecords', '0',
    'unknownRecords', '0', 'cancelledRecords', '0', 'successRecords', '0', 'failedRecords', '0',
    'chargedMicros', '0', 'releasedMicros', '0', 'idempotencyKey', args.idempotencyKey,
    'reserveSeq', reserve_seq, 'availableMicros', read_wallet().available,
  }
  add_fields(fields, args.record)
  change(keys.job, claim, fields)
  redis.call('PERSIST', keys.job)
end

local function buffer_quote(claim)
  buffer(claim, add_fields({ 'maxQuoteMicros', text(maximum) }, args.record))
end

-- Everything that ledger needs to rebuild the job after a loss of Redis.
local function terms_of(claim)
  local terms = {
    unitPriceMicros = text(price), acceptBy = args.acceptByMs,
    idempotencyKey = args.idempotencyKey, fingerprint = has_key and claim.fingerprint or '',
    claimedAt = has_key and claim.claimedAt or '',
    cursor = cursor, cursorTo = to, apiKey = claim.apiKey, deadlineMs = claim.deadlineMs,
  }
  for name, value in pairs(args.record) do
    terms[name] = value
  end
  return cjson.encode(terms)
end

local stored, claim = stored_outcome(keys)
if stored then
  return stored
end
if price * rows ~= maximum then
  error('the maximum of ' .. text(maximum) .. ' micros is not the price of the rows: ' .. text(rows)
    .. ' rows at ' .. text(price) .. ' micros')
end
local now = now_ms()
local refusal = refusal_of(now, claim)
if refusal then
  if refusal.code == 'quoted' then
    buffer_quote(claim)
  end
  refusal.job = job
  refusal.accept_by = accept_by
  return refuse_job(keys, claim, refusal)
end

local seq, entry = reserve({
  tenant = tenant, job = job, amount = maximum, at = now, header = args.header, slots = taken,
  reason = terms_of(claim),
})
write_record(now, claim, seq)
if cursor ~= '' then
  -- Only this command turns contacts of a feed into rows of a job, so each becomes a row once.
  redis.call('HSET', keys.cursors, cursor, to)
end
return reply('accepted', { entry }, claim)
