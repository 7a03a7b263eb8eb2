/* global crypto, document, fetch, location, TextDecoder */
import { cellsOf, delimiterOf, guess, hasHeader, namesOf } from './columns.js'

const MOST_ROWS = 100_000
const MOST_BYTES = 200_000_000
const SAMPLE_ROWS = 4
const find = id => document.getElementById(id)
const form = find('upload')
const fields = form?.elements
const [chosen, fault, quote, ask] = ['chosen', 'fault', 'quote', 'ask'].map(find)

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
  if (given.size > MOST_BYTES) return tell('That file is too large to read here. Split it.')
  say(`Reading ${given.name}.`)
  try {
    file = { name: given.name, rows: await rowsOf(given) }
  } catch (error) {
    return tell(`That file can not be read as CSV: ${error.message} Save it as CSV and choose it again.`)
  }
  if (file.rows.length === 0) return tell('That file is empty. Choose another one.')
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
  say(`${given.name}: ${file.rows.length.toLocaleString('en-US')} lines. Choose the column.`)
}

async function rowsOf (given) {
  const { parse } = await import('./csv-parse.js')
  const bytes = await given.arrayBuffer()
  const text = textOf(bytes)
  return parse(text, {
    delimiter: delimiterOf(text), bom: true, relax_column_count: true, skip_empty_lines: true,
  })
}

/** Files that are no UTF-8 come from spreadsheets of Western Windows machines. */
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
  const mark = (cell, index) => {
    if (index === column) cell.className = 'marked'
    return cell
  }
  const head = element('tr')
  head.append(...names.map((name, index) => mark(element('th', name, { scope: 'col' }), index)))
  const body = element('tbody')
  body.append(...rows.map(row => {
    const line = element('tr')
    line.append(...names.map((_, index) => mark(element('td', row[index] ?? ''), index)))
    return line
  }))
  const top = element('thead')
  top.append(head)
  const table = element('table')
  table.append(top, body)
  find('sample').replaceChildren(table)
}

async function showQuote (event) {
  event.preventDefault()
  clear()
  const inputs = cellsOf(file.rows, fields.header.checked, Number(fields.column.value))
  if (inputs.length === 0) return tell('That file has a line with names and nothing else.')
  if (inputs.length > MOST_ROWS) {
    return tell(`That file has ${inputs.length.toLocaleString('en-US')} rows; a job takes up to ` +
      '100,000. Split the file.')
  }
  const answer = await work('Asking for the price.', () => send('quote', wanted(inputs)))
  if (answer === undefined) return
  // The server has escaped what it put in.
  quote.innerHTML = answer.html
  quote.hidden = false
  find('quote-title').focus()
  find('back').addEventListener('click', () => {
    clear()
    fields.column.focus()
  })
  // One id for this quote: pressed twice or sent again, it is one job.
  const id = crypto.randomUUID()
  find('confirm')?.addEventListener('click', () => start({ ...wanted(inputs), id }))
}

async function start (job) {
  const answer = await work('Starting the job.', () => send('job', job))
  if (answer !== undefined) location.assign(answer.path)
}

function wanted (inputs) {
  return {
    service: fields.service.value,
    inputs,
    country: fields.country.disabled ? '' : fields.country.value,
    webhook: fields.webhook.value,
    fresh: fields.fresh.checked,
    file: file.name,
  }
}

/** Does something that takes a while: buttons rest, and what went wrong is told. */
async function work (doing, task) {
  const buttons = [ask, ...quote.querySelectorAll('button')]
  for (const button of buttons) button.disabled = true
  form.setAttribute('aria-busy', 'true')
  say(doing)
  try {
    return await task()
  } catch (error) {
    tell(error.message)
    return undefined
  } finally {
    form.removeAttribute('aria-busy')
    for (const button of buttons) button.disabled = false
  }
}

async function send (what, body) {
  const { mode, token } = form.dataset
  let answer
  try {
    answer = await fetch(`/${mode}/upload/${what}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'x-form-token': token },
      body: JSON.stringify(body),
    })
  } catch {
    throw new Error('The service can not be reached. Check the connection and try again.')
  }
  const content = await answer.json()
  if (answer.ok) return content
  if (answer.status === 401) location.assign('/sign-in?notice=signed-out')
  throw new Error(content.fault?.message ?? 'That did not work. Try again.')
}

function clear () {
  fault.hidden = true
  fault.textContent = ''
  quote.hidden = true
  quote.replaceChildren()
}

function tell (text) {
  fault.textContent = text
  fault.hidden = false
}

function say (text) {
  find('announcer').textContent = text
}

function element (name, text = '', attributes = {}) {
  const made = document.createElement(name)
  made.textContent = text
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value)
  return made
}
