-- KEYS: wallet. ARGV: what the keys of its jobs begin with.
-- Adds a tenant up and freezes it when it does not. All is read in one moment, so nothing is just
-- under way. The keys of jobs are of the same slot, and which they are only the wallet knows.
local gate = gate_of(KEYS[1])
if gate.shut then
  return { 'waiting' }
end
if gate.frozen then
  return { 'frozen', gate.frozen }
end
local wallet = wallet_of(KEYS[1])
local amounts = {}
for at, account in ipairs({ 'available', 'reserved', 'charged', 'funded' }) do
  amounts[at] = tonumber(wallet[account])
end
local maxima = 0
local all = redis.call('HGETALL', KEYS[1])
local open = fields_from(all, OPEN)
for _, job in ipairs(open) do
  local record = redis.call('HMGET', ARGV[1] .. job, 'maxQuoteMicros', 'ended', 'settledSeq')
  if record[1] and record[2] ~= '1' and not record[3] then
    maxima = maxima + tonumber(record[1])
  end
end
local text = string.format('available %.0f, reserved %.0f, charged %.0f, funded %.0f, quotes of ' ..
  'open jobs %.0f', amounts[1], amounts[2], amounts[3], amounts[4], maxima)
local adds_up = amounts[1] + amounts[2] + amounts[3] == amounts[4] and amounts[2] == maxima
local is_positive = amounts[1] >= 0 and amounts[2] >= 0 and amounts[3] >= 0
if adds_up and is_positive then
  local is_idle = #open == 0 and #fields_from(all, ENTRY) == 0
  return { is_idle and 'idle' or 'sound' }
end
local reason = 'the sums are wrong: ' .. text
redis.call('HSET', KEYS[1], 'frozen', reason)
return { 'broken', reason }
