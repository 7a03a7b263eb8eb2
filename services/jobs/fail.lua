-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job, recounts.
-- ARGV: the JSON of tenant, job, digest, rows (their number in the bitmap); the bitmap of the whole
-- job. An empty digest means that there is no block: the job's rows are unreadable, including
-- finished ones, so all rows that are neither invalid nor duplicates count as unknown, and none is
-- charged.
-- Assigns all open rows of a stalled job to one block and ends the job. Counted rows stay counted,
-- so the bitmap of rows that were open a moment ago is valid if it still completes the job exactly.
-- Does nothing while the blocks of the job are recounted: rows with a verdict may seem open.
local job_key, recounts = KEYS[2], KEYS[3]
local locked = locked_or_frozen()
if locked then
  return locked
end
local args, bitmap = cjson.decode(ARGV[1]), ARGV[2]
local tenant, job, digest = args.tenant, args.job, args.digest
local rows = whole_number(args.rows, 'the number of rows')

local fields, known = record_of(job_key, COUNTED)
if not fields.status or fields.closed == '1' then
  return { 'skip' }
end
local total = tonumber(fields.totalRows)
if fields.ended == '1' or tonumber(fields.finishedRows) + rows ~= total then
  return tallied('known', fields)
end
if redis.call('HEXISTS', recounts, job) == 1 then
  return tallied('known', fields)
end
if #bitmap ~= math.ceil(total / 8) then
  error('the bitmap has ' .. #bitmap .. ' bytes: a job of ' .. total .. ' rows needs '
    .. math.ceil(total / 8))
end
local is_lost = digest == ''
local maximum = tonumber(fields.maxQuoteMicros)
local charge = is_lost and 0 or charge_of(fields)

local now = now_ms()
local unknown = tonumber(fields.unknownRecords) + rows
if is_lost then
  unknown = total - tonumber(fields.invalidRecords) - tonumber(fields.duplicateRecords)
  buffer(fields, {
    'successRecords', '0', 'cacheHits', '0', 'freshRecords', '0',
    'cancelledRecords', '0',
  })
elseif rows > 0 then
  buffer_entry(digest, packed(tonumber(fields.chunks), 0, 0, bitmap), known)
end
buffer(fields, {
  'finishedRows', text(total), 'unknownRecords', text(unknown), 'updatedAtMs', text(now),
})
return end_job(job_key, {
  tenant = tenant, job = job, amount = maximum, charge = charge, at = now, status = 'failed',
  void = charge == 0, fields = fields,
})
