-- Joined behind recovery-guard.lua.
-- The movements of money, part of every script that makes any. A script makes all checks before its
-- first write, because Redis does not roll a script back after an error.
-- Amounts have at most 15 digits: below 2^53, so that doubles compare and add them exactly. They
-- are formatted by '%.0f' only, because tostring and cjson write 10^14 as 1e+14.

local MAX_AMOUNT = 999999999999999
-- Prefixes of wallet fields: `entry:<seq>`, an entry of the outbox, and `open:<job>`, the time of
-- the last movement of a job that is not closed.
local ENTRY, OPEN = 'entry:', 'open:'

local function text(number)
  return string.format('%.0f', number)
end

-- Parses an argument as a whole number without leading zeros.
local function whole_number(argument, what)
  local form = argument == '0' or string.match(argument, '^[1-9][0-9]*$')
  if not form or #argument > 15 then
    error(what .. ' is "' .. argument
      .. '", expected an integer of at most 15 digits, without sign or leading zeros')
  end
  return tonumber(argument)
end

-- Applies a movement (amount by account) and appends its entry with the balances after it. Records
-- its time for the entry's job. Returns the entry's seq and JSON.
local function append(entry, movement)
  local after = read_wallet()
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
  redis.call('HSET', WALLET, ENTRY .. seq, json, unpack(changes))
  return seq, json
end

local function entry_at(seq)
  return seq and redis.call('HGET', WALLET, ENTRY .. seq) or ''
end

-- Selects the fields of HGETALL whose names have the prefix. Returns the names without the prefix,
-- and the values, in no order.
local function fields_with_prefix(fields, prefix)
  local names, values = {}, {}
  for at = 1, #fields, 2 do
    if string.sub(fields[at], 1, #prefix) == prefix then
      names[#names + 1] = string.sub(fields[at], #prefix + 1)
      values[#values + 1] = fields[at + 1]
    end
  end
  return names, values
end

-- Adds names and values to a flat list, as HSET takes and scripts return them. Returns the list.
local function add_fields(list, fields)
  for name, value in pairs(fields) do
    list[#list + 1] = name
    list[#list + 1] = value
  end
  return list
end

-- Reserves a job's maximum, and takes its slots; the caller has checked that the amount is
-- available.
local function reserve(entry)
  entry.type = 'reserve'
  entry.id = entry.job .. ':reserve'
  return append(entry, {
    available = -entry.amount, reserved = entry.amount, slots = entry.slots,
  })
end

-- Charges a part of a reservation and releases the rest and the slots, in one entry. It may fail,
-- so it is the first write of its script.
local function settle(entry)
  if entry.charge > entry.amount then
    error('the charge ' .. text(entry.charge) .. ' exceeds the reserved amount '
      .. text(entry.amount))
  end
  local reserved = tonumber(read_wallet().reserved)
  if reserved < entry.amount then
    error('the wallet has ' .. text(reserved) .. ' micros reserved, the job needs '
      .. text(entry.amount))
  end
  entry.type = entry.type or 'settle'
  entry.id = entry.job .. ':' .. entry.type
  return append(entry, {
    reserved = -entry.amount, charged = entry.charge, available = entry.amount - entry.charge,
    slots = -entry.slots,
  })
end

-- Releases a whole reservation.
local function void(entry)
  entry.charge = 0
  entry.type = 'void'
  return settle(entry)
end
