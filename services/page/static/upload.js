import {
  checkReadable, detectUtf16, isArchive, readHead, SAMPLE_BYTES, splitRows,
} from './csv-format.js'

const MIB = 1_024 * 1_024
/** Of a file, which the browser reads as a whole. */
const MAX_BYTES = 200 * MIB
/** Of a job. */
const MAX_PART_BYTES = 32 * MIB
const MAX_ROWS = 100_000
/** The part of a file that is read here and sent to find its contacts. */
const HEAD_BYTES = 262_144
const SAMPLE_ROWS = 4
const find = id => document.getElementById(id)
const form = find('upload')
const fields = form?.elements
const [chosen, failure, quote, ask, working] =
  ['chosen', 'error', 'quote', 'ask', 'working'].map(find)

let file = { name: '', content: new Blob(), head: new Blob(), delimiter: ',', rows: [], sheets: [] }
/** What the service says of the national numbers in the chosen column. */
let national = null
/** Counts questions to the service: the answer to an earlier one is out of date. */
let turn = 0

form?.addEventListener('submit', showQuote)
fields?.file.addEventListener('change', () => readFile(''))
fields?.sheet.addEventListener('change', () => readFile(fields.sheet.value))
find('guess')?.addEventListener('click', () => {
  fields.country.value = national.guess
  clear()
  showCountry()
  fields.country.focus()
})
for (const name of ['header', 'column', 'service', 'country', 'webhook', 'deadline', 'fresh']) {
  fields?.[name].addEventListener('change', changed)
}

for (const input of form?.querySelectorAll('.options input') ?? []) {
  input.addEventListener('change', clear)
}

if (form?.dataset.list !== undefined) {
  takeList(form.dataset).catch(() => fail('The list of that job cannot be read. Choose its file.'))
}

/** Takes the list of an earlier job, as if its file was chosen. */
async function takeList ({ list, name }) {
  announce(`Reading ${name}.`)
  await alone(async () => {
    const answer = await fetch(list)
    if (!answer.ok) throw new Error(`${list} answered ${answer.status}`)
    const files = new DataTransfer()
    files.items.add(new File([await answer.blob()], name, { type: 'text/csv' }))
    fields.file.files = files.files
  })
  await readFile('')
}

async function readFile (sheet) {
  const [given] = fields.file.files
  turn += 1
  clear()
  chosen.hidden = true
  ask.disabled = true
  if (given === undefined) return
  if (given.size > MAX_BYTES) {
    return fail('That file has more than 200 MiB. Split it, or remove columns.')
  }
  announce(`Reading ${given.name}.`)
  let found
  try {
    found = await alone(() => readHeadOf(given, sheet))
  } catch (error) {
    return fail(`${error.message} Then choose it again.`)
  }
  if (found === undefined) return fail('The file is empty. Choose another one.')
  fields.header.checked = found.header
  showSheets()
  showColumns()
  const [best = { column: 1, service: '' }] = found.candidates
  fields.column.value = String((found.column ?? best.column) - 1)
  chooseService(found.service ?? best.service)
  showFound(found)
  showSample()
  chosen.hidden = false
  ask.disabled = false
  announce(`${given.name} is read. ${found.reason}`)
}

/** Reads the first lines of a file, and what the service finds in them; undefined if it has none. */
async function readHeadOf (given, sheet) {
  file = await headOf(given, sheet)
  if (file.rows.length === 0) return undefined
  const found = await look({})
  // Of several that may be meant, the best one is chosen here, and the page says so.
  const [first] = found.candidates
  if (found.column !== null || first === undefined) return found
  const { country } = await look({ header: found.header, column: first.column })
  return { ...found, country }
}

/** What the service finds in the first lines of the file. */
async function look (query) {
  try {
    return await send('preview', file.head, {
      text: 'Looking for the contacts', query: { delimiter: file.delimiter, ...query },
    })
  } finally {
    working.hidden = true
  }
}

function showSheets () {
  const { sheet, sheets } = file
  find('sheets').hidden = sheets.length < 2
  fields.sheet.replaceChildren(...sheets.map(name => element('option', name, { value: name })))
  fields.sheet.value = sheet
}

function showFound ({ reason, country }) {
  find('reason').textContent = reason
  national = country
  showCountry()
  showOptions()
}

/** The file as it is sent, and its first rows, by the rules of the service. */
async function headOf (given, wanted) {
  const { content, sheet = '', sheets = [] } = await toCsv(given, wanted)
  const bytes = new Uint8Array(await content.arrayBuffer())
  const { end, ...read } = readHead(bytes, HEAD_BYTES)
  return { name: given.name, content, head: content.slice(0, end), ...read, sheet, sheets }
}

/** A sheet of a workbook as CSV, which the service reads; the first one without a name. */
async function sheetOf (given, wanted) {
  try {
    const { csv, sheet, sheets } = await send('sheet', given, {
      text: `Reading ${given.name}`, query: { sheet: wanted },
    })
    return { content: new Blob([csv]), sheet, sheets }
  } finally {
    working.hidden = true
  }
}

/** A workbook or text in UTF-16 as CSV in UTF-8; any other file as it is. */
async function toCsv (given, wanted) {
  const sample = new Uint8Array(await given.slice(0, SAMPLE_BYTES).arrayBuffer())
  if (isArchive(sample)) return await sheetOf(given, wanted)
  const utf16 = detectUtf16(sample)
  if (utf16 === undefined) {
    checkReadable(sample)
    return { content: given }
  }
  const decoder = new TextDecoder(utf16, { fatal: true })
  try {
    return { content: new Blob([decoder.decode(await given.arrayBuffer())]) }
  } catch {
    throw new Error('The file is damaged text in UTF-16. Save it again.')
  }
}

async function changed ({ target: { name } }) {
  clear()
  if (name === 'header') showColumns()
  showCountry()
  showOptions()
  showSample()
  if (name === 'column' || name === 'service') await follow(name)
}

/** The service follows the column, and the other way round. */
async function follow (name) {
  turn += 1
  const asked = turn
  const header = fields.header.checked
  const column = () => Number(fields.column.value) + 1
  const service = () => fields.service.value
  ask.disabled = true
  try {
    const asks = name === 'column' ? { column: column() } : { service: service() }
    let found = await look({ header, ...asks })
    if (asked !== turn) return
    if (name === 'column') chooseService(found.service)
    else if (!found.candidates.some(candidate => candidate.column === column()) &&
      found.column !== null) fields.column.value = String(found.column - 1)
    if (found.column !== column() || found.service !== service()) {
      found = await look({ header, column: column(), service: service() })
      if (asked !== turn) return
    }
    showFound(found)
    showSample()
  } catch (error) {
    fail(error.message)
  }
  if (asked === turn) ask.disabled = false
}

const kindOfService = () => fields.service.selectedOptions[0]?.dataset.kind

/** Chooses a service, unless the chosen one is for contacts of its kind. */
function chooseService (slug) {
  const option = [...fields.service.options].find(({ value }) => value === slug)
  if (option !== undefined && option.dataset.kind !== kindOfService()) fields.service.value = slug
}

/** The names of the columns; `Column 1` etc. where the file has none. */
function namesOf (rows, isHeader) {
  const width = rows.reduce((most, row) => Math.max(most, row.length), 0)
  return Array.from({ length: width }, (_, index) =>
    (isHeader && rows[0]?.[index]?.trim()) || `Column ${index + 1}`)
}

function showColumns () {
  const before = fields.column.value
  fields.column.replaceChildren(...namesOf(file.rows, fields.header.checked)
    .map((name, index) => element('option', name, { value: String(index) })))
  if (before !== '') fields.column.value = before
}

function showOptions () {
  for (const set of form.querySelectorAll('.options')) {
    set.hidden = set.dataset.service !== fields.service.value
  }
}

/** The chosen options of the service, as the interface writes them. */
function chosenOptions () {
  const { value: service } = fields.service
  const checked = form.querySelectorAll(`.options[data-service="${service}"] [name=option]:checked`)
  return [...checked].map(({ value }) => value === 'reassigned_number'
    ? `${value}:${fields[`since-${service}`].value}`
    : value).join(',')
}

function showCountry () {
  const { country } = fields
  country.disabled = kindOfService() !== 'phone'
  const notice = find('national')
  notice.hidden = country.disabled || country.value !== '' || national === null
  if (national === null) return
  const { reason, guess } = national
  notice.querySelector('span').textContent = reason
  const name = [...country.options].find(({ value }) => value === guess)?.text
  find('guess').hidden = name === undefined
  find('guess').textContent = `Use ${name}`
}

function showSample () {
  const isHeader = fields.header.checked
  const names = namesOf(file.rows, isHeader)
  const column = Number(fields.column.value)
  const rows = file.rows.slice(isHeader ? 1 : 0).slice(0, SAMPLE_ROWS)
  const highlight = (cell, index) => {
    if (index === column) cell.className = 'marked'
    return cell
  }
  const head = element('tr')
  head.append(...names.map((name, index) => highlight(element('th', name, { scope: 'col' }), index)))
  const body = element('tbody')
  body.append(...rows.map(row => {
    const line = element('tr')
    line.append(...names.map((_, index) => highlight(element('td', row[index] ?? ''), index)))
    return line
  }))
  const header = element('thead')
  header.append(head)
  const table = element('table')
  table.append(header, body)
  find('sample').replaceChildren(table)
}

async function showQuote (event) {
  event.preventDefault()
  clear()
  const quoted = await work(quoteParts)
  if (quoted === undefined) return
  // The server has escaped all values.
  quote.innerHTML = quoted.html
  quote.hidden = false
  find('quote-title').focus()
  find('back').addEventListener('click', () => {
    clear()
    fields.column.focus()
  })
  // One id per job, so that a second click or a retry creates no second job.
  const jobs = quoted.parts.map((part, index) => ({
    part,
    query: {
      ...options(),
      id: crypto.randomUUID(),
      ...quoted.parts.length > 1 && {
        file: `${file.name} (${index + 1} of ${quoted.parts.length})`,
      },
    },
  }))
  find('confirm')?.addEventListener('click', () => start(jobs))
  find('ask-estimate').addEventListener('click', () => showEstimate(quoted.parts))
}

/** Shows the expected verdicts of a file, by a sample of its first part. */
async function showEstimate (parts) {
  const answer = await work(() => send('estimate', parts[0], {
    text: 'Verifying a sample', query: { ...options(), parts: parts.length },
  }))
  if (answer === undefined) return
  // The server has escaped all values.
  find('estimate').innerHTML = answer.html
  find('ask-estimate')?.addEventListener('click', () => showEstimate(parts))
  find('estimate-title').focus()
}

/** The parts of the file, each of which becomes a job, and their quote as HTML. */
async function quoteParts () {
  const parts = await splitFile()
  let answer
  for (const [index, part] of parts.entries()) {
    answer = await send('quote', part, {
      text: `Computing the price${ofMany(index, parts)}`,
      // Each answer has the sum so far.
      query: {
        ...options(),
        earlier: JSON.stringify(answer?.preflight ?? null),
        parts: parts.length,
      },
    })
  }
  return { parts, html: answer.html }
}

async function start (jobs) {
  const path = await work(async () => {
    let last
    for (const [index, { part, query }] of jobs.entries()) {
      last = await send('job', part, { text: `Starting the job${ofMany(index, jobs)}`, query })
    }
    const { mode } = form.dataset
    return jobs.length === 1
      ? last.path
      : `/${mode}/jobs?${new URLSearchParams({ search: file.name })}`
  })
  if (path !== undefined) location.assign(path)
}

const ofMany = (index, all) => all.length === 1 ? '' : `, part ${index + 1} of ${all.length}`

/** The file, or its parts for jobs of at most 100,000 rows, each with the header of the file. */
async function splitFile () {
  const bytes = new Uint8Array(await file.content.arrayBuffer())
  const { head, parts } = splitRows(bytes, {
    delimiter: file.delimiter,
    start: file.start,
    hasHeader: fields.header.checked,
    maxRows: MAX_ROWS,
    maxBytes: MAX_PART_BYTES,
  })
  if (parts.length === 1) return [file.content]
  return parts.map(([from, to]) =>
    new Blob([bytes.subarray(0, head), bytes.subarray(from, to)]))
}

function options () {
  return {
    service: fields.service.value,
    column: Number(fields.column.value) + 1,
    delimiter: file.delimiter,
    header: fields.header.checked,
    country: fields.country.disabled ? '' : fields.country.value,
    webhook: fields.webhook.value,
    deadline: fields.deadline.value,
    fresh: fields.fresh.checked,
    options: chosenOptions(),
    file: file.name,
  }
}

/** Runs requests alone, and shows their progress and error. */
async function work (task) {
  form.setAttribute('aria-busy', 'true')
  failure.hidden = true
  try {
    return await alone(task)
  } catch (error) {
    fail(error.message)
    return undefined
  } finally {
    working.hidden = true
    form.removeAttribute('aria-busy')
  }
}

/** Runs a task while nothing can be changed, so that its result is that of what is chosen. */
async function alone (task) {
  const { activeElement } = document
  form.inert = quote.inert = true
  try {
    return await task()
  } finally {
    form.inert = quote.inert = false
    activeElement?.focus()
  }
}

/** Shows how far a request is; without a share it waits for the service. */
function showWork (text, share) {
  const [name, bar] = working.children
  name.textContent = text
  if (share === undefined) bar.removeAttribute('value')
  else bar.value = share
  working.hidden = false
}

/** Sends a file. Only an XMLHttpRequest says how much of it is sent. */
function send (path, content, { text, query }) {
  const { mode, token } = form.dataset
  const request = new XMLHttpRequest()
  request.open('POST', `/${mode}/upload/${path}?${new URLSearchParams(query)}`)
  request.setRequestHeader('content-type', 'text/csv')
  request.setRequestHeader('x-form-token', token)
  request.responseType = 'json'
  request.upload.addEventListener('progress', ({ loaded, total }) =>
    showWork(`${text}: sending`, loaded < total ? loaded / total : undefined))
  request.upload.addEventListener('load', () => showWork(text))
  announce(`${text}.`)
  showWork(text)
  return new Promise((resolve, reject) => {
    request.addEventListener('error', () => reject(
      new Error('The service is not reachable. Check the connection and try again.')))
    request.addEventListener('load', () => {
      if (request.status === 200) return resolve(request.response)
      if (request.status === 401) location.assign('/sign-in?notice=signed-out')
      reject(new Error(request.response?.error?.message ?? 'That did not work. Try again.'))
    })
    request.send(content)
  })
}

function clear () {
  failure.hidden = true
  failure.textContent = ''
  quote.hidden = true
  quote.replaceChildren()
}

function fail (text) {
  failure.textContent = text
  failure.hidden = false
}

function announce (text) {
  find('announcer').textContent = text
}

function element (name, text = '', attributes = {}) {
  const created = document.createElement(name)
  created.textContent = text
  for (const [key, value] of Object.entries(attributes)) created.setAttribute(key, value)
  return created
}
