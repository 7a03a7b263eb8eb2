import { zipOf } from './zip.ts'

type Parts = {
  /** The rows of the first sheet: XML within `sheetData`. */
  readonly rows?: string
  /** `si` elements. */
  readonly strings?: string
  /** `numFmt` elements, and the ids of formats of the styles in order. */
  readonly formats?: string
  readonly styles?: readonly number[]
  /** Names of the sheets; all but the first are empty. */
  readonly sheets?: readonly string[]
  readonly states?: readonly string[]
  readonly properties?: string
  /** Further parts, or others in place of these. */
  readonly more?: Readonly<Record<string, string | Buffer>>
}

const HEAD = '<?xml version="1.0" encoding="UTF-8"?>'

/** A workbook (.xlsx) of these parts as bytes. */
export function workbookOf (parts: Parts): Buffer {
  const {
    rows = '', strings, formats = '', styles = [], sheets = ['List'], states = [],
    properties = '', more = {},
  } = parts
  const relation = (_: string, index: number) =>
    `<Relationship Id="rId${index + 1}" Type="http://x/worksheet" ` +
    `Target="worksheets/s${index}.xml"/>`
  const sheet = (name: string, index: number) => `<sheet name="${name}" sheetId="${index + 1}" ` +
    `state="${states[index] ?? 'visible'}" r:id="rId${index + 1}"/>`
  return zipOf({
    'xl/workbook.xml': `${HEAD}<workbook>${properties}<sheets>${sheets.map(sheet).join('')}` +
      '</sheets></workbook>',
    'xl/_rels/workbook.xml.rels':
      `${HEAD}<Relationships>${sheets.map(relation).join('')}</Relationships>`,
    ...Object.fromEntries(sheets.map((_, index) => [`xl/worksheets/s${index}.xml`,
      `${HEAD}<worksheet><sheetData>${index === 0 ? rows : ''}</sheetData></worksheet>`])),
    ...strings !== undefined && { 'xl/sharedStrings.xml': `${HEAD}<sst>${strings}</sst>` },
    'xl/styles.xml': `${HEAD}<styleSheet><numFmts>${formats}</numFmts><cellStyleXfs>` +
      '<xf numFmtId="14"/></cellStyleXfs><cellXfs>' +
      `${styles.map(id => `<xf numFmtId="${id}"/>`).join('')}</cellXfs></styleSheet>`,
    ...more,
  })
}

/** A row of texts in the sheet itself. */
export function rowOf (row: number, ...texts: readonly string[]): string {
  const cells = texts.map(text => `<c t="inlineStr"><is><t>${text}</t></is></c>`)
  return `<row r="${row}">${cells.join('')}</row>`
}
