-- KEYS: wallet, job, replay.
-- ARGV: tenant, job, chunk, digest, inputs (0 none, 1 all, 2 blank ones in place of lost ones),
-- first row, then the bitmaps finished, cached, live, invalid, unknown, cancelled, then the
-- copies: pairs of big-endian 32-bit row and number, then 1 for a block that stands in for
-- others (BLOCK_PARTS.dead). Such a block ends all open rows of its chunk, so it waits while the
-- blocks of its job are counted again: rows that have a verdict may only seem open.
-- Of a frozen wallet rows are counted and no money moves: the job ends once people thaw it.
local keys = { wallet = KEYS[1], job = KEYS[2] }
local replay = KEYS[3]
local tenant, job, chunk, digest = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local has_inputs = ARGV[5] ~= '0'
local BLANK = '2'
local bitmaps = {
  finished = ARGV[7], cached = ARGV[8], live = ARGV[9], invalid = ARGV[10], unknown = ARGV[11],
  cancelled = ARGV[12],
}
-- How an original ends, each in one of these ways; a finished row that is in none is a duplicate.
local ENDS = { 'cached', 'live', 'invalid', 'unknown', 'cancelled' }
local copies = ARGV[13]
local stands_in = ARGV[14] == '1'
local SEEN, INPUTS = 'seen:' .. chunk, 'inputs:' .. chunk

local bits_of = { [0] = 0 }
for byte = 1, 255 do
  bits_of[byte] = bits_of[math.floor(byte / 2)] + byte % 2
end

local function check_block(fields, before)
  if whole(chunk, 'the chunk') >= tonumber(fields.chunks) then
    error('the job has no chunk ' .. chunk)
  end
  whole(ARGV[6], 'the first row')
  for name, bitmap in pairs(bitmaps) do
    if #bitmap ~= #bitmaps.finished then
      error('the bitmap ' .. name .. ' is not as long as the others')
    end
  end
  if before ~= '' and #before ~= #bitmaps.finished then
    error('chunk ' .. chunk .. ' had another length before')
  end
end

-- The rows no block had before, what is counted of them, and all rows had by now.
local function win(before)
  local won = {
    rows = 0, cached = 0, live = 0, invalid = 0, unknown = 0, cancelled = 0, duplicates = 0,
  }
  local mine, all = {}, {}
  for at = 1, #bitmaps.finished do
    local seen = before == '' and 0 or before:byte(at)
    local byte = bit.band(bitmaps.finished:byte(at), bit.bnot(seen))
    mine[at] = string.char(byte)
    all[at] = string.char(bit.bor(byte, seen))
    if byte ~= 0 then
      won.rows = won.rows + bits_of[byte]
      local rest = byte
      for _, name in ipairs(ENDS) do
        local ended = bit.band(byte, bitmaps[name]:byte(at))
        if bit.band(ended, rest) ~= ended then
          error('a row of chunk ' .. chunk .. ' ended in two ways')
        end
        rest = bit.bxor(rest, ended)
        won[name] = won[name] + bits_of[ended]
      end
      won.duplicates = won.duplicates + bits_of[rest]
    end
  end
  won.bitmap, won.all = table.concat(mine), table.concat(all)
  return won
end

local function has(bitmap, row)
  local byte = bitmap:byte(math.floor(row / 8) + 1) or 0
  return bit.band(byte, bit.lshift(1, row % 8)) ~= 0
end

-- An original that was won brings the rows that repeat it along, whoever finished those.
local function count_verdicts(won)
  won.succeeded = won.cached + won.live
  won.failed = won.invalid + won.unknown + won.cancelled
  for at = 1, #copies, 8 do
    local row, number = struct.unpack('>I4I4', copies, at)
    if has(won.bitmap, row) then
      local has_verdict = has(bitmaps.cached, row) or has(bitmaps.live, row)
      local kind = has_verdict and 'succeeded' or 'failed'
      won[kind] = won[kind] + number
    end
  end
end

-- Notes what was won, and the counts after it.
local function note_won(fields, won, inputs, now)
  note({}, {
    BLOCK .. digest,
    packed(tonumber(chunk), tonumber(ARGV[6]), has_inputs and 1 or 0, won.bitmap),
    SEEN, won.all, unpack(inputs.new and { INPUTS, ARGV[5] } or {}),
  })
  local changes = { 'updatedAtMs', text(now) }
  for name, number in pairs({
    inputBlocks = inputs.more, finishedRows = won.rows,
    successRecords = won.succeeded, failedRecords = won.failed, cacheHits = won.cached,
    freshRecords = won.live, invalidRecords = won.invalid, duplicateRecords = won.duplicates,
    unknownRecords = won.unknown, cancelledRecords = won.cancelled,
  }) do
    if number ~= 0 then
      changes[#changes + 1] = name
      changes[#changes + 1] = text(tonumber(fields[name]) + number)
    end
  end
  note(fields, changes)
end

local fields, found = record_of(keys.job, SEEN, INPUTS)
-- While ledger compares, it is not known yet which jobs are to be counted again.
local shut = stands_in and gate_of(keys.wallet).shut or shut_for(fields, keys.wallet)
if shut then
  return shut
end
if not fields.status or fields.closed == '1' then
  return { 'skip' }
end
if fields.ended == '1' then
  return tallied('known', keys, fields)
end
if stands_in and redis.call('HEXISTS', replay, job) == 1 then
  return redis.error_reply('REPLAYING the blocks of the job are counted again')
end

local before, known_inputs = found[SEEN] or '', found[INPUTS]
check_block(fields, before)
local won = win(before)
count_verdicts(won)
-- Inputs are noted when they are the first of their chunk, or only blank ones came before.
local inputs = {
  new = has_inputs and (not known_inputs or known_inputs == BLANK and ARGV[5] ~= BLANK),
  more = has_inputs and not known_inputs and 1 or 0,
}
if won.rows == 0 and not inputs.new then
  return tallied('counted', keys, fields)
end

local finished = tonumber(fields.finishedRows) + won.rows
local input_blocks = tonumber(fields.inputBlocks) + inputs.more
local total = tonumber(fields.totalRows)
if finished > total then
  error('more rows are finished than the job has')
end
local maximum = tonumber(fields.maxQuoteMicros)
-- Only live verdicts are charged.
local charge = (tonumber(fields.freshRecords) + won.live) * tonumber(fields.unitPriceMicros)
local ends = finished == total and input_blocks == tonumber(fields.chunks)
if ends then
  local gate = gate_of(keys.wallet)
  if gate.shut then
    return gate.shut
  end
  ends = not gate.frozen
end
if ends and not fields.settledSeq then
  check_settle(keys, maximum, charge)
end

local now = now_ms()
note_won(fields, won, inputs, now)
if not ends then
  note_progress(keys, job, now)
  write(keys.job)
  return tallied('counted', keys, fields)
end
return end_job(keys, {
  tenant = tenant, job = job, amount = maximum, charge = charge, at = now,
  status = ended_status(fields), fields = fields,
})
