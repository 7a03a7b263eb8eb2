-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job. Returns the record of a claim or job. It may be empty only behind the recovery
-- guard: a Redis that has lost its data has no record of any job.
local guard = read_guard()
if guard.locked then
  return guard.locked
end
return reply('known', {}, record_of(KEYS[2]))
