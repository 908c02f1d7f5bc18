/**
 * Pictures of every page of the dashboard, on rows that the script makes. Of a system after a campaign of faults:
 * `npm run chaos -- --pictures <folder>`.
 *
 * `tsx scripts/dashboard-pictures.ts [--out docs/images/dashboard] [--only home,webhooks] [--looks light,phone]`
 */
import { parseArgs } from 'node:util'
import { startChromium } from '../test/e2e/chromium.ts'
import { PATHS } from '../test/e2e/dashboard/paths.ts'
import type { Look } from '../test/e2e/dashboard/pictures.ts'
import { LOOKS, takePictures } from '../test/e2e/dashboard/pictures.ts'
import { startSite } from '../test/e2e/dashboard/site.ts'
import { sharePostgres } from '../test/support/postgres-setup.ts'

const { values } = parseArgs({
  options: {
    out: { type: 'string', default: 'docs/images/dashboard' },
    only: { type: 'string' },
    looks: { type: 'string', default: Object.keys(LOOKS).join(',') },
  },
})

const postgres = await sharePostgres()
const site = await startSite({ isHostile: false, adminUrl: postgres.url })
const browser = await startChromium()
try {
  const paths = PATHS.map((of) => of(site.rows))
  await takePictures(browser, site.origin, paths, values.out, {
    looks: values.looks.split(',') as Look[],
    ...(values.only === undefined ? {} : { only: values.only.split(',') }),
  })
} finally {
  await browser.close()
  await site.close()
  await postgres.release()
}
process.exit(0)
