-- KEYS: gate, wallet, outbox, open. ARGV: fence, what the keys of its jobs begin with.
-- A tenant as it stands, if nothing of it can move. From here on no earlier ledger touches it. The
-- keys of jobs are of the same slot, and which they are only the open set knows.
local gate = redis.call('HMGET', KEYS[1], 'run', 'fence', 'trust')
local run = run_id()
if gate[1] == run then
  return { 'unlocked' }
end
if tonumber(gate[2] or '0') > tonumber(ARGV[1]) then
  return { 'fenced' }
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1])
local wallet = redis.call('HMGET', KEYS[2], 'seq', 'available', 'reserved', 'charged', 'funded')
for at = 1, 5 do
  wallet[at] = wallet[at] or '0'
end
local jobs = {}
for _, job in ipairs(redis.call('ZRANGE', KEYS[4], 0, -1)) do
  local found = redis.call('HMGET', ARGV[2] .. job, 'status', 'createdAtMs', 'ended', 'settledSeq')
  local state = found[3] == '1' and 'ended' or found[4] and 'settled' or 'running'
  jobs[#jobs + 1] = job
  jobs[#jobs + 1] = found[2] or '0'
  jobs[#jobs + 1] = found[1] and state or 'gone'
end
return { 'waiting', run, gate[3] or '', wallet, redis.call('HVALS', KEYS[3]), jobs }
