-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job. ARGV: tenant, job.
-- Ends a job whose rows are all counted, but whose wallet was frozen when the last one was.
local guard = read_guard()
if guard.locked then
  return guard.locked
end
local fields = record_of(KEYS[2])
if not fields.status or fields.closed == '1' then
  return { 'skip' }
end
if fields.ended == '1' or guard.frozen or not is_complete(fields) then
  return tallied('known', fields)
end
local maximum = tonumber(fields.maxQuoteMicros)
local charge = charge_of(fields)
return end_job(KEYS[2], {
  tenant = ARGV[1], job = ARGV[2], amount = maximum, charge = charge, at = now_ms(),
  status = ended_status(fields), fields = fields,
})
