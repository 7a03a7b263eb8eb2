import { html, type Html } from '../html.ts'
import { operatorPage } from '../layout.ts'
import { ARROWS, STAGES } from '../pipeline/arrows.ts'
import { drawing } from '../pipeline/drawing.ts'
import type { Flows } from '../pipeline/flows.ts'
import { textsOf, tonesOf } from '../pipeline/texts.ts'
import type { Session } from '../sessions.ts'
import { table } from './parts.ts'

/** The pipeline with what moves in it, as a drawing and as tables. */
export function pipelineView (session: Session, flows: Flows): Html {
  const texts = textsOf(flows)
  const changing = (id: string) => html`<span data-text="${id}">${texts[id]}</span>`
  return operatorPage(session, {
    title: 'Pipeline',
    scripts: ['pipeline.js'],
    body: html`
      <div class="heading"><h1>Pipeline</h1>
        <label class="check"><input type="checkbox" id="live" checked> Live</label></div>
      <p class="hint">${changing('health')} Rates are those of the last 20 seconds. What is written
        to a topic is told of all its writers together.</p>
      <div class="table drawing" role="region" aria-label="Drawing of the pipeline" tabindex="0">
        ${drawing(texts, tonesOf(flows))}
      </div>
      <section><h2>Stages</h2>
        ${table('Stages', [
          { text: 'Stage' }, { text: 'Instances', isNumber: true },
          { text: 'Work', isNumber: true }, { text: 'Oldest message', isNumber: true },
        ], STAGES.map(stage => html`<tr><th scope="row">${stage}</th>
          <td class="number">${changing(`instances-${stage}`)}</td>
          <td class="number">${changing(`done-${stage}`)}</td>
          <td class="number">${changing(`age-${stage}`)}</td></tr>`))}
      </section>
      <section><h2>Topics</h2>
        ${table('Topics', [
          { text: 'Stage' }, { text: 'Does' }, { text: 'Topic' },
          { text: 'Rate', isNumber: true }, { text: 'Lag', isNumber: true },
        ], ARROWS.map(({ id, stage, topic, kind }) => html`<tr><th scope="row">${stage}</th>
          <td>${kind}</td><td><code>${topic}</code></td>
          <td class="number">${changing(`rate-${id}`)}</td>
          <td class="number">${kind === 'reads' ? changing(`lag-${id}`) : '–'}</td></tr>`))}
      </section>`,
  })
}
