-- Joined behind recovery-guard.lua and wallet.lua: see wallet.ts.
-- KEYS: wallet, posted. ARGV: tenant, id, signed amount, reason.
-- A frozen wallet takes no adjustment either: the entry would write unexplained balances to the
-- journal.
local keys = { wallet = KEYS[1], posted = KEYS[2] }
local locked = locked_or_frozen(keys.wallet)
if locked then
  return locked
end
local sign, digits = string.match(ARGV[3], '^(%-?)([0-9]+)$')
local size = whole_number(digits or ARGV[3], 'the amount of an adjustment')
local amount = sign == '-' and -size or size
local name = 'adjust:' .. ARGV[2]

local posted = redis.call('HGET', keys.posted, name)
if posted then
  local seq, before = string.match(posted, '^(%d+):(%-?%d+)$')
  if before ~= ARGV[3] then
    return { 'conflict' }
  end
  return { 'known', seq }
end

if amount == 0 then
  error('the amount of an adjustment must not be 0')
end
local balances = wallet_of(keys.wallet)
if tonumber(balances.available) + amount < 0 then
  return { 'insufficient', balances.available }
end
local funded = tonumber(balances.funded) + amount
if funded > MAX_AMOUNT then
  error('the funded amount would be ' .. text(funded) .. ' micros, the maximum is '
    .. text(MAX_AMOUNT))
end

local seq = fund(keys, {
  tenant = ARGV[1], id = name, type = 'adjust', amount = amount, at = now_ms(), reason = ARGV[4],
})
redis.call('HSET', keys.posted, name, seq .. ':' .. ARGV[3])
return { 'posted', seq }
