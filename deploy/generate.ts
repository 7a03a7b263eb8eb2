/** What `npm run generate` runs; the chart copies dashboards, so it comes last. */
const PROGRAMS = ['types', 'openapi', 'readme', 'dashboards', 'chart']

for (const name of PROGRAMS) await import(`./${name}.ts`)
