-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job. Cancels a job: rows whose check has not started end unchecked.
local guard = read_guard()
if guard.locked then
  return guard.locked
end
local fields = record_of(KEYS[2])
if not fields.status then
  return { 'unknown' }
end
if fields.ended ~= '1' and fields.status ~= 'cancelling' then
  change(KEYS[2], fields, { 'status', 'cancelling', 'updatedAtMs', text(now_ms()) })
  notify(fields.id)
end
-- A repeated request succeeds until the job has ended.
return reply(fields.ended == '1' and 'ended' or 'cancelling', {}, fields)
