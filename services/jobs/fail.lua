-- KEYS: wallet, job, replay.
-- ARGV: tenant, job, digest, bitmap of the whole job, number of rows in it. With an empty digest
-- there is no block: nobody can read the job's rows, those finished before included, so those that
-- are neither invalid nor duplicates count as unknown, and none is charged.
-- Gives all open rows of a stalled job to one block and ends it. Rows once won stay won, so the
-- bitmap, made from what was open a moment ago, is right if it still fills the job exactly. A job
-- whose blocks are being counted again is left alone, as rows that have a verdict may seem open.
local keys = { wallet = KEYS[1], job = KEYS[2] }
local stopped = stopped_by(keys.wallet)
if stopped then
  return stopped
end
local tenant, job, digest, bitmap = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local rows = whole(ARGV[5], 'the number of rows')

local fields = record_of(keys.job)
if not fields.status or fields.closed == '1' then
  return { 'skip' }
end
local total = tonumber(fields.totalRows)
if fields.ended == '1' or tonumber(fields.finishedRows) + rows ~= total then
  return tallied('known', keys, fields)
end
if redis.call('HEXISTS', KEYS[3], job) == 1 then
  return tallied('known', keys, fields)
end
if #bitmap ~= math.ceil(total / 8) then
  error('the bitmap is not that of the whole job')
end
local is_lost = digest == ''
local maximum = tonumber(fields.maxQuoteMicros)
local charge = is_lost and 0
  or tonumber(fields.freshRecords) * tonumber(fields.unitPriceMicros)
if not fields.settledSeq then
  check_settle(keys, maximum, charge)
end

local now = now_ms()
local unknown = tonumber(fields.unknownRecords) + rows
if is_lost then
  unknown = total - tonumber(fields.invalidRecords) - tonumber(fields.duplicateRecords)
  note(fields, {
    'successRecords', '0', 'cacheHits', '0', 'freshRecords', '0',
    'cancelledRecords', '0',
  })
elseif rows > 0 then
  note({}, { BLOCK .. digest, packed(tonumber(fields.chunks), 0, 0, bitmap) })
end
note(fields, {
  'finishedRows', text(total), 'unknownRecords', text(unknown), 'updatedAtMs', text(now),
})
return end_job(keys, {
  tenant = tenant, job = job, amount = maximum, charge = charge, at = now, status = 'failed',
  void = charge == 0, fields = fields,
})
