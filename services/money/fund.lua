-- Joined behind recovery-guard.lua and wallet.lua: see wallet.ts.
-- KEYS: wallet, posted. ARGV: the JSON of tenant, type (topup or adjust), id, amount, which is
-- signed for adjust, and reason.
-- A frozen wallet takes none either: the entry would write unexplained balances to the journal.
local posted_key = KEYS[2]
local locked = locked_or_frozen()
if locked then
  return locked
end
local args = cjson.decode(ARGV[1])
local what = 'the amount of ' .. (args.type == 'topup' and 'a top-up' or 'an adjustment')
local taken = args.type == 'adjust' and string.match(args.amount, '^%-([0-9]+)$')
local amount = taken and -whole_number(taken, what) or whole_number(args.amount, what)
local name = args.type .. ':' .. args.id

local posted = redis.call('HGET', posted_key, name)
if posted then
  local seq, before = string.match(posted, '^(%d+):(%-?%d+)$')
  if before ~= args.amount then
    return { 'conflict' }
  end
  return { 'known', seq }
end

if amount == 0 then
  error(what .. ' must not be 0')
end
local balances = read_wallet()
if tonumber(balances.available) + amount < 0 then
  return { 'insufficient', balances.available }
end
if tonumber(balances.funded) + amount > MAX_AMOUNT then
  return { 'too_much', balances.funded }
end

local seq = append({
  tenant = args.tenant, id = name, type = args.type, amount = amount, at = now_ms(),
  reason = args.reason,
}, { available = amount, funded = amount })
redis.call('HSET', posted_key, name, seq .. ':' .. args.amount)
return { 'posted', seq }
