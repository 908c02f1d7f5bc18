import { modelProblems } from '../../mappings/model-tables.ts'
import type { Check } from './doctor-check.ts'
import { capped, counted, fault } from './doctor-check.ts'

export const modelsTables: Check = {
  name: 'models.tables',
  needs: ['database.reachable'],
  async look(framework) {
    const problems = await modelProblems(framework)
    return capped(
      problems.map(({ model, problem }) =>
        fault(
          `The model "${model}" does not fit its table: ${problem}. Listeners that use it fail. Apply the host's own migrations.`,
          null,
        ),
      ),
      `${counted(framework.models.size, 'model')} of the host: what each reads and writes is there.`,
    )
  },
}
