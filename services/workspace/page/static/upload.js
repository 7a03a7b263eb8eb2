/* global crypto, document, fetch, location, TextDecoder */
import { cellsOf, delimiterOf, guess, hasHeader, namesOf } from './columns.js'

const MAX_ROWS = 100_000
const MAX_BYTES = 200_000_000
const SAMPLE_ROWS = 4
const find = id => document.getElementById(id)
const form = find('upload')
const fields = form?.elements
const [chosen, failure, quote, ask] = ['chosen', 'error', 'quote', 'ask'].map(find)

let file = { name: '', rows: [] }

form?.addEventListener('submit', showQuote)
fields?.file.addEventListener('change', readFile)
for (const name of ['header', 'column', 'service', 'country', 'webhook', 'fresh']) {
  fields?.[name].addEventListener('change', changed)
}
fields?.service.addEventListener('change', showCountry)

async function readFile () {
  const [given] = fields.file.files
  clear()
  chosen.hidden = true
  ask.disabled = true
  if (given === undefined) return
  if (given.size > MAX_BYTES) return fail('That file has more than 200 MB. Split it.')
  announce(`Reading ${given.name}.`)
  try {
    file = { name: given.name, rows: await rowsOf(given) }
  } catch (error) {
    return fail(`The file is not valid CSV: ${error.message} Save it as CSV and choose it again.`)
  }
  if (file.rows.length === 0) return fail('The file is empty. Choose another one.')
  fields.header.checked = hasHeader(file.rows)
  showColumns()
  const { column, kind } = guess(file.rows, fields.header.checked)
  fields.column.value = String(column)
  const fitting = [...fields.service.options].find(option => option.dataset.kind === kind)
  if (fitting !== undefined) fields.service.value = fitting.value
  showCountry()
  showSample()
  chosen.hidden = false
  ask.disabled = false
  announce(`${given.name}: ${file.rows.length.toLocaleString('en-US')} lines. Choose the column.`)
}

async function rowsOf (given) {
  const { parse } = await import('./csv-parse.js')
  const bytes = await given.arrayBuffer()
  const text = textOf(bytes)
  return parse(text, {
    delimiter: delimiterOf(text), bom: true, relax_column_count: true, skip_empty_lines: true,
  })
}

/** Files that are not UTF-8 usually come from spreadsheets on Windows. */
function textOf (bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return new TextDecoder('windows-1252').decode(bytes)
  }
}

function changed ({ target }) {
  clear()
  if (target.name === 'header') showColumns()
  if (target.name === 'header' || target.name === 'column') showSample()
}

function showColumns () {
  const before = fields.column.value
  fields.column.replaceChildren(...namesOf(file.rows, fields.header.checked)
    .map((name, index) => element('option', name, { value: String(index) })))
  if (before !== '') fields.column.value = before
}

function showCountry () {
  fields.country.disabled = fields.service.selectedOptions[0]?.dataset.kind !== 'phone'
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
  const inputs = cellsOf(file.rows, fields.header.checked, Number(fields.column.value))
  if (inputs.length === 0) return fail('The file has no line besides the header. Choose another one.')
  if (inputs.length > MAX_ROWS) {
    return fail(`The file has ${inputs.length.toLocaleString('en-US')} rows; a job has at most ` +
      '100,000. Split the file.')
  }
  const response = await work('Requesting the price.', () => send('quote', jobOf(inputs)))
  if (response === undefined) return
  // The server has escaped all values.
  quote.innerHTML = response.html
  quote.hidden = false
  find('quote-title').focus()
  find('back').addEventListener('click', () => {
    clear()
    fields.column.focus()
  })
  // One id per quote, so that a second click or a retry creates no second job.
  const id = crypto.randomUUID()
  find('confirm')?.addEventListener('click', () => start({ ...jobOf(inputs), id }))
}

async function start (job) {
  const response = await work('Starting the job.', () => send('job', job))
  if (response !== undefined) location.assign(response.path)
}

function jobOf (inputs) {
  return {
    service: fields.service.value,
    inputs,
    country: fields.country.disabled ? '' : fields.country.value,
    webhook: fields.webhook.value,
    fresh: fields.fresh.checked,
    file: file.name,
  }
}

/** Runs a request with all buttons disabled, and shows its error. */
async function work (progress, task) {
  const buttons = [ask, ...quote.querySelectorAll('button')]
  for (const button of buttons) button.disabled = true
  form.setAttribute('aria-busy', 'true')
  announce(progress)
  try {
    return await task()
  } catch (error) {
    fail(error.message)
    return undefined
  } finally {
    form.removeAttribute('aria-busy')
    for (const button of buttons) button.disabled = false
  }
}

async function send (path, body) {
  const { mode, token } = form.dataset
  let response
  try {
    response = await fetch(`/${mode}/upload/${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-form-token': token },
      body: JSON.stringify(body),
    })
  } catch {
    throw new Error('The service is not reachable. Check the connection and try again.')
  }
  const content = await response.json()
  if (response.ok) return content
  if (response.status === 401) location.assign('/sign-in?notice=signed-out')
  throw new Error(content.error?.message ?? 'That did not work. Try again.')
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
