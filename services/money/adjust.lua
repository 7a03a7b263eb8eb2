-- KEYS: wallet, posted. ARGV: tenant, id, signed amount, reason.
-- What is frozen it does not move either: an entry made of balances that nobody can explain would
-- have the journal say what they say.
local keys = { wallet = KEYS[1] }
local stopped = stopped_by(keys.wallet)
if stopped then
  return stopped
end
local sign, digits = string.match(ARGV[3], '^(%-?)([0-9]+)$')
local size = whole(digits or '', 'the amount of an adjustment')
local amount = sign == '-' and -size or size
local name = 'adjust:' .. ARGV[2]

local posted = redis.call('HGET', KEYS[2], name)
if posted then
  local seq, before = string.match(posted, '^(%d+):(%-?%d+)$')
  if before ~= ARGV[3] then
    return { 'conflict' }
  end
  return { 'known', entry_at(keys.wallet, seq) }
end

if amount == 0 then
  error('an adjustment of nothing')
end
local balances = wallet_of(keys.wallet)
if tonumber(balances.available) + amount < 0 then
  return { 'insufficient', balances.available }
end
if tonumber(balances.funded) + amount > HIGHEST_AMOUNT then
  error('a wallet holds at most ' .. text(HIGHEST_AMOUNT) .. ' micros in all')
end

local seq, entry = fund(keys, {
  tenant = ARGV[1], id = name, type = 'adjust', amount = amount, at = now_ms(), reason = ARGV[4],
})
redis.call('HSET', KEYS[2], name, seq .. ':' .. ARGV[3])
return { 'posted', entry }
