-- A script of jobs: jobScript in store.ts says what it is joined behind.
-- KEYS: wallet, job, recounts.
-- ARGV: tenant, job, inline results for the requests that wait for the end of the job or '', 1 to
-- keep them in the record until the job is closed, then the fields of each block, in the order of
-- BLOCK_FIELDS: chunk, digest, inputs (0 none, 1 all, 2 blank ones in place of lost ones), first
-- row, bitmaps: finished, cached, live, invalid, unknown, cancelled, the duplicates: pairs of
-- big-endian 32-bit row and count, 1 for a block that replaces lost blocks (NO_BATCH.substitute),
-- and its verdicts: status, reason, first byte and length of each, one a line, and their bitmaps,
-- joined.
-- A block that replaces lost ones ends all open rows of its chunk, so it is rejected while the
-- blocks of its job are recounted: rows that have a verdict may only seem open.
-- The first block sets the job to `verifying`, unless it has no rows to check live.
-- While the wallet is frozen, rows are counted but no money moves; end.lua ends the job later.
-- If these are all blocks of a job, the reply has its manifest: the caller need not read it.
local job_key, recounts = KEYS[2], KEYS[3]
local tenant, job, inline_results, keeps_inline = ARGV[1], ARGV[2], ARGV[3], ARGV[4] == '1'
local BLOCK_FIELDS = {
  'chunk', 'digest', 'inputs', 'first_row', 'finished', 'cached', 'live', 'invalid', 'unknown',
  'cancelled', 'duplicates', 'replaces_lost', 'verdicts', 'verdict_rows',
}
local BLANK = '2'
-- An original is in exactly one of these bitmaps. A finished row in none of them is a duplicate.
local OUTCOMES_OF_ROWS = { 'cached', 'live', 'invalid', 'unknown', 'cancelled' }

local blocks, chunk_fields, replaces_lost = {}, {}, false
for first = 5, #ARGV, #BLOCK_FIELDS do
  local block = {}
  for at, name in ipairs(BLOCK_FIELDS) do
    block[name] = ARGV[first + at - 1]
  end
  block.seen_field, block.inputs_field = 'seen:' .. block.chunk, 'inputs:' .. block.chunk
  blocks[#blocks + 1] = block
  chunk_fields[#chunk_fields + 1] = block.seen_field
  chunk_fields[#chunk_fields + 1] = block.inputs_field
  replaces_lost = replaces_lost or block.replaces_lost == '1'
end

local bits_of = { [0] = 0 }
for byte = 1, 255 do
  bits_of[byte] = bits_of[math.floor(byte / 2)] + byte % 2
end

local function check_block(block, fields, before)
  if whole_number(block.chunk, 'the chunk') >= tonumber(fields.chunks) then
    error('chunk ' .. block.chunk .. ' of job ' .. job .. ' does not exist (chunks 0-'
      .. text(tonumber(fields.chunks) - 1) .. ')')
  end
  whole_number(block.first_row, 'the first row')
  for _, name in ipairs(OUTCOMES_OF_ROWS) do
    if #block[name] ~= #block.finished then
      error('the bitmap ' .. name .. ' has ' .. #block[name] .. ' bytes, the bitmap finished '
        .. #block.finished)
    end
  end
  if before ~= '' and #before ~= #block.finished then
    error('the bitmaps of chunk ' .. block.chunk .. ' have ' .. #block.finished
      .. ' bytes, earlier ones ' .. #before)
  end
end

-- The rows that no earlier block has, their counts, and all rows that blocks have by now.
local function win(block, before)
  local won = {
    rows = 0, cached = 0, live = 0, invalid = 0, unknown = 0, cancelled = 0, duplicates = 0,
  }
  local mine, all = {}, {}
  for at = 1, #block.finished do
    local seen = before == '' and 0 or before:byte(at)
    local byte = bit.band(block.finished:byte(at), bit.bnot(seen))
    mine[at] = string.char(byte)
    all[at] = string.char(bit.bor(byte, seen))
    if byte ~= 0 then
      won.rows = won.rows + bits_of[byte]
      local rest = byte
      for _, name in ipairs(OUTCOMES_OF_ROWS) do
        local ended = bit.band(byte, block[name]:byte(at))
        if bit.band(ended, rest) ~= ended then
          error('a row of chunk ' .. block.chunk .. ' of job ' .. job
            .. ' has two outcomes in one block (the second is ' .. name .. ')')
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

-- The duplicates of a won original count with it, whichever block finished them.
local function count_verdicts(block, won)
  won.succeeded = won.cached + won.live
  won.failed = won.invalid + won.unknown + won.cancelled
  won.copies = {}
  for at = 1, #block.duplicates, 8 do
    local row, number = struct.unpack('>I4I4', block.duplicates, at)
    if has(won.bitmap, row) then
      local has_verdict = has(block.cached, row) or has(block.live, row)
      local kind = has_verdict and 'succeeded' or 'failed'
      won[kind] = won[kind] + number
      won.copies[#won.copies + 1] = {
        byte = math.floor(row / 8) + 1, mask = bit.lshift(1, row % 8), number = number,
      }
    end
  end
end

-- The rows of the job by status and reason, with the won originals and their duplicates.
local function verdicts_with(block, won, counted)
  local verdicts, last = cjson.decode(counted or '{}'), 0
  for verdict, first, length in block.verdicts:gmatch('(%S+ %S+) (%d+) (%d+)') do
    local bitmap = block.verdict_rows:sub(last + 1, last + length)
    last = last + length
    local rows = 0
    for at = 1, #bitmap do
      rows = rows + bits_of[bit.band(won.bitmap:byte(first + at), bitmap:byte(at))]
    end
    for _, original in ipairs(won.copies) do
      local at = original.byte - first
      if at > 0 and at <= #bitmap and bit.band(bitmap:byte(at), original.mask) ~= 0 then
        rows = rows + original.number
      end
    end
    if rows > 0 then
      verdicts[verdict] = (verdicts[verdict] or 0) + rows
    end
  end
  return cjson.encode(verdicts)
end

-- The manifest entries of these blocks, each a digest and its packed entry.
local manifest = {}

-- The manifest as text: digest:packed entry in hex, separated by spaces.
local function manifest_text()
  local entries = {}
  for at, each in ipairs(manifest) do
    entries[at] = each.digest .. ':' .. each.entry:gsub('.', function (byte)
      return string.format('%02x', byte:byte())
    end)
  end
  return table.concat(entries, ' ')
end

-- Buffers the won rows and the new counts.
local function buffer_won(block, fields, known, won, inputs)
  local has_inputs = block.inputs ~= '0' and 1 or 0
  local entry = packed(tonumber(block.chunk), tonumber(block.first_row), has_inputs, won.bitmap)
  manifest[#manifest + 1] = { digest = block.digest, entry = entry }
  buffer_entry(block.digest, entry, known)
  buffer({}, {
    block.seen_field, won.all, unpack(inputs.new and { block.inputs_field, block.inputs } or {}),
  })
  local changes = {}
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
  buffer(fields, changes)
end

-- Counts a block. `known` has the finished rows and inputs of each chunk, and the number of counted
-- blocks, as of the block before.
-- Returns whether the block wins anything.
local function count(block, fields, known)
  local before, known_inputs = known[block.seen_field] or '', known[block.inputs_field]
  check_block(block, fields, before)
  local won = win(block, before)
  count_verdicts(block, won)
  local has_inputs = block.inputs ~= '0'
  -- Inputs are stored if they are the first of their chunk, or replace blank ones.
  local inputs = {
    new = has_inputs
      and (not known_inputs or known_inputs == BLANK and block.inputs ~= BLANK),
    more = has_inputs and not known_inputs and 1 or 0,
  }
  if won.rows == 0 and not inputs.new then
    return false
  end
  buffer_won(block, fields, known, won, inputs)
  buffer(fields, { 'verdicts', verdicts_with(block, won, fields.verdicts) })
  known[block.seen_field] = won.all
  if inputs.new then
    known[block.inputs_field] = block.inputs
  end
  return true
end

local function is_unstarted(fields)
  return fields.status == 'queued' or fields.status == 'preparing'
end

local fields, known = record_of(job_key, COUNTED, unpack(chunk_fields))
-- While ledger compares Redis with Kafka, it does not know yet which jobs need a recount.
local locked = replaces_lost and read_guard().locked or locked_for(fields)
if locked then
  return locked
end
if not fields.status or fields.closed == '1' then
  return { 'skip' }
end
if fields.ended == '1' then
  return tallied('known', fields)
end
if replaces_lost and redis.call('HEXISTS', recounts, job) == 1 then
  return redis.error_reply('REPLAYING the blocks of job ' .. job .. ' are recounted, retry later')
end

local is_first = fields.finishedRows == '0' and fields.inputBlocks == '0'
local wins = false
for _, block in ipairs(blocks) do
  -- A block after the one that ends the job wins nothing.
  wins = count(block, fields, known) or wins
end
if not wins then
  return tallied('counted', fields)
end
local total = tonumber(fields.totalRows)
if tonumber(fields.finishedRows) > total then
  error('job ' .. job .. ' would have ' .. fields.finishedRows .. ' finished rows of ' .. total)
end
-- A loss of Redis forgets a cancellation, but not the rows that it ended: when they are counted
-- again, so is the cancellation.
if fields.cancelledRecords ~= '0' and fields.status ~= 'cancelling' then
  buffer(fields, { 'status', 'cancelling' })
end
local maximum = tonumber(fields.maxQuoteMicros)
local charge = charge_of(fields)
local ends = is_complete(fields)
if ends then
  local guard = read_guard()
  if guard.locked then
    return guard.locked
  end
  ends = not guard.frozen
end

local now = now_ms()
buffer(fields, { 'updatedAtMs', text(now) })
if not ends then
  if is_unstarted(fields) and fields.quotedFresh ~= '0' then
    buffer(fields, { 'status', 'verifying' })
    notify(job)
  end
  write(job_key)
  return tallied('counted', fields)
end
if keeps_inline then
  buffer({}, { INLINE_RESULTS, inline_results })
end
local answer = end_job(job_key, {
  tenant = tenant, job = job, amount = maximum, charge = charge, at = now,
  status = ended_status(fields), fields = fields, inline_results = inline_results,
})
if is_first then
  answer[#answer + 1] = 'manifest'
  answer[#answer + 1] = manifest_text()
end
return answer
