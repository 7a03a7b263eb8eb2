import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'
import { LONGEST } from '../suites.ts'

/** Begins the files of a suite that take longest first, on a fresh clone too. */
export class LongestFirst extends BaseSequencer {
  override async sort (files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files)
    const rankOf = ({ project, moduleId }: TestSpecification) => {
      const place = LONGEST.indexOf(relative(project.config.root, moduleId))
      return place === -1 ? LONGEST.length : place
    }
    const projects = [...new Set(sorted.map(({ project }) => project))]
    return projects.flatMap(project => sorted.filter(file => file.project === project)
      .toSorted((a, b) => rankOf(a) - rankOf(b)))
  }
}
