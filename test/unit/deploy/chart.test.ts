import { expect, it } from 'vitest'
import { outdatedFiles } from '../../../deploy/chart.ts'

it('the chart knows the topology, settings, alerts and dashboards of this release', async () => {
  expect(await outdatedFiles(), 'run npm run chart').toEqual([])
})
