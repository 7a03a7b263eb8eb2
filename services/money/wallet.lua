-- The movements of money. Every script that moves any begins with this file, and obeys its order:
-- all checks first, since what a script wrote before an error stays written.
-- Amounts have at most 15 digits: below 2^53, so that doubles compare and add them exactly. They
-- become text by '%.0f' only, because tostring and cjson write 1e+14 from there on.

local HIGHEST_AMOUNT = 999999999999999
-- The fields of a wallet with an entry of its outbox, whose number follows, and of a job that is
-- not closed, whose id follows: when it made progress last.
local ENTRY, OPEN = 'entry:', 'open:'

local function text(number)
  return string.format('%.0f', number)
end

-- The whole number that an argument names, without leading zeros.
local function whole(argument, what)
  local form = argument == '0' or string.match(argument, '^[1-9][0-9]*$')
  if not form or #argument > 15 then
    error(what .. ' must be a whole number of at most 15 digits')
  end
  return tonumber(argument)
end

-- Makes a movement, amounts by account, and appends its entry with the balances after it; for the
-- job of the movement it is progress. Returns the entry's seq and JSON.
local function append(keys, entry, movement)
  local after = wallet_of(keys.wallet)
  local changes = entry.job and { OPEN .. entry.job, text(entry.at) } or {}
  movement.seq = 1
  for account, amount in pairs(movement) do
    if amount ~= 0 then
      after[account] = text(tonumber(after[account]) + amount)
      changes[#changes + 1] = account
      changes[#changes + 1] = after[account]
    end
  end
  local seq = after.seq
  local json = cjson.encode({
    tenant = entry.tenant,
    seq = seq,
    entryId = entry.id,
    type = entry.type,
    job = entry.job or '',
    amountMicros = text(entry.amount),
    chargeMicros = text(entry.charge or 0),
    availableMicros = after.available,
    reservedMicros = after.reserved,
    chargedMicros = after.charged,
    fundedMicros = after.funded,
    at = text(entry.at),
    reason = entry.reason or '',
    header = entry.header or '',
  })
  redis.call('HSET', keys.wallet, ENTRY .. seq, json, unpack(changes))
  return seq, json
end

local function note_progress(keys, job, at)
  redis.call('HSET', keys.wallet, OPEN .. job, text(at))
end

local function entry_at(wallet_key, seq)
  return seq and redis.call('HGET', wallet_key, ENTRY .. seq) or ''
end

-- Of all fields of a wallet, in turn with their values: what follows this in their names, and the
-- values of these, in no order.
local function fields_from(fields, start)
  local names, values = {}, {}
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, #start) == start then
      names[#names + 1] = string.sub(fields[at], #start + 1)
      values[#values + 1] = fields[at + 1]
    end
  end
  return names, values
end

-- Adds to (or, when negative, takes from) what can be reserved; the caller has checked the bounds.
local function fund(keys, entry)
  return append(keys, entry, { available = entry.amount, funded = entry.amount })
end

-- Puts a job's maximum aside, and takes the slot it needs, if it needs one; the caller has checked
-- that so much is available.
local function reserve(keys, entry)
  entry.type = 'reserve'
  entry.id = entry.job .. ':reserve'
  return append(keys, entry, {
    available = -entry.amount, reserved = entry.amount, slots = entry.slots,
  })
end

-- To be called before the first write of a script that settles.
local function check_settle(keys, amount, charge)
  if charge > amount then
    error('a charge of ' .. text(charge) .. ' is above its maximum ' .. text(amount))
  end
  if tonumber(wallet_of(keys.wallet).reserved) < amount then
    error('less than ' .. text(amount) .. ' is reserved')
  end
end

-- Charges a part of a reservation and returns the rest and the slot, in one entry.
local function settle(keys, entry)
  entry.type = entry.type or 'settle'
  entry.id = entry.job .. ':' .. entry.type
  return append(keys, entry, {
    reserved = -entry.amount, charged = entry.charge, available = entry.amount - entry.charge,
    slots = -entry.slots,
  })
end

-- Returns a whole reservation.
local function void(keys, entry)
  entry.charge = 0
  entry.type = 'void'
  return settle(keys, entry)
end
