-- Joined behind recovery-guard.lua and wallet.lua: see wallet.ts.
-- KEYS: wallet, posted. ARGV: tenant, id, amount, reason.
local keys = { wallet = KEYS[1], posted = KEYS[2] }
local locked = locked_or_frozen(keys.wallet)
if locked then
  return locked
end
local amount = whole_number(ARGV[3], 'the amount of a top-up')
local name = 'topup:' .. ARGV[2]

local posted = redis.call('HGET', keys.posted, name)
if posted then
  local seq, before = string.match(posted, '^(%d+):(%d+)$')
  if before ~= ARGV[3] then
    return { 'conflict' }
  end
  return { 'known', seq }
end

if amount == 0 then
  error('the amount of a top-up must not be 0')
end
local funded = tonumber(wallet_of(keys.wallet).funded) + amount
if funded > MAX_AMOUNT then
  error('the funded amount would be ' .. text(funded) .. ' micros, the maximum is '
    .. text(MAX_AMOUNT))
end

local seq = fund(keys, {
  tenant = ARGV[1], id = name, type = 'topup', amount = amount, at = now_ms(), reason = ARGV[4],
})
redis.call('HSET', keys.posted, name, seq .. ':' .. ARGV[3])
return { 'posted', seq }
