import { describe, expect, it } from 'vitest'
import {
  layoutOn, planProcesses, processesOption, SERVICES, type Layout,
} from '../../../../deploy/local/launcher/layout.ts'
import { HOSTED_NAMES } from '../../../../services/pipeline/config.ts'
import { STAGES } from '../../../../services/topology.ts'

/** The plan as text: each process with what it hosts. */
const planned = (layout: Layout, services = SERVICES) =>
  planProcesses(services, layout)
    .map(({ name, services: hosted }) => `${name}: ${hosted.join(' ')}`)

describe('a layout', () => {
  it('divides the services into two processes, or one per service', () => {
    expect(planned({ processes: 2 })).toEqual([
      'front-1: ingest page',
      'pipeline-1: feed normalize lookup verify settle deliver publish ledger',
    ])
    expect(planned({})).toEqual(SERVICES.map(name => `${name}-1: ${name}`))
  })

  it('hosts every service once, whatever the number of processes', () => {
    for (const processes of [1, 2, 3, 9] as const) {
      const hosted = planProcesses(SERVICES, { processes }).flatMap(({ services }) => services)
      expect(hosted.toSorted()).toEqual([...HOSTED_NAMES].toSorted())
    }
    expect(processesOption().argChoices).toEqual(['1', '2', '3', '9'])
  })

  it('starts further instances of a hosted stage as processes of their own', () => {
    const services = ['ingest', 'normalize', 'lookup', 'verify']
    expect(planned({ processes: 2, scale: { verify: 3, normalize: 0 } }, services)).toEqual([
      'ingest-1: ingest', 'pipeline-1: lookup verify', 'verify-2: verify', 'verify-3: verify',
    ])
    expect(planned({ scale: { verify: 2, normalize: 0 } }, services))
      .toEqual(['ingest-1: ingest', 'lookup-1: lookup', 'verify-1: verify', 'verify-2: verify'])
  })

  it('gives stages that are apart a process of their own', () => {
    const services = ['ingest', 'normalize', 'lookup', 'verify']
    expect(planned({ processes: 2, apart: ['lookup'] }, services))
      .toEqual(['ingest-1: ingest', 'pipeline-1: normalize verify', 'lookup-1: lookup'])
    expect(planned({ processes: 2, apart: STAGES }, services))
      .toEqual(planned({ processes: 9 }, services))
  })
})

it('the layout on a stack ' +
  'has two processes by default, and one per stage where each stage has a user', () => {
  const scale = { verify: 2 }
  expect(layoutOn({ envByStage: {} }, { scale })).toEqual({ processes: 2, scale })
  expect(layoutOn({ envByStage: {} }, { processes: 3 })).toEqual({ processes: 3 })
  const secure = { envByStage: { verify: { KAFKA_SASL_USERNAME: 'verify' } } }
  expect(layoutOn(secure, { scale })).toEqual({ processes: 9, scale })
  expect(() => layoutOn(secure, { processes: 2 }))
    .toThrow('--processes 2 is not possible with --secure')
})
