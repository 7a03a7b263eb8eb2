-- Joined behind money/recovery-guard.lua and money/wallet.lua: see recovery-store.ts.
-- KEYS: wallet. ARGV: prefix of the keys of its jobs.
-- Checks the sums of a wallet, and freezes it if they are wrong. One script reads everything, so no
-- movement is half done. The keys of jobs are in the same slot; only the wallet knows their ids.
local guard = read_guard()
if guard.locked then
  return { 'waiting' }
end
if guard.frozen then
  return { 'frozen', guard.frozen }
end
local wallet = read_wallet()
local amounts = {}
for at, account in ipairs({ 'available', 'reserved', 'charged', 'funded' }) do
  amounts[at] = tonumber(wallet[account])
end
local maxima = 0
local all = redis.call('HGETALL', WALLET)
local open = fields_with_prefix(all, OPEN)
for _, job in ipairs(open) do
  local record = redis.call('HMGET', ARGV[1] .. job, 'maxQuoteMicros', 'ended', 'journaledSettleSeq')
  if record[1] and record[2] ~= '1' and not record[3] then
    maxima = maxima + tonumber(record[1])
  end
end
local sum = amounts[1] + amounts[2] + amounts[3]
local text = string.format('available %.0f + reserved %.0f + charged %.0f = %.0f, funded %.0f; ' ..
  'quotes of open jobs %.0f, reserved %.0f',
  amounts[1], amounts[2], amounts[3], sum, amounts[4], maxima, amounts[2])
local adds_up = sum == amounts[4] and amounts[2] == maxima
local is_positive = amounts[1] >= 0 and amounts[2] >= 0 and amounts[3] >= 0
if adds_up and is_positive then
  local is_idle = #open == 0 and #fields_with_prefix(all, ENTRY) == 0
  return { is_idle and 'idle' or 'ok' }
end
local violation = adds_up and 'a balance is negative: ' or 'balances do not add up: '
local reason = violation .. text
redis.call('HSET', WALLET, 'frozen', reason)
return { 'inconsistent', reason }
