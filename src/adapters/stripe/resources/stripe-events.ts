/** https://docs.stripe.com/api/events */
import type Stripe from 'stripe'
import type { StripeAccount } from '../account.ts'
import type { PageParams } from '../paging.ts'
import { pageParams } from '../paging.ts'
import { checkNames, given, pathOf } from '../stripe-arguments.ts'
import type { Page } from '../stripe-call.ts'
import { callStripe } from '../stripe-call.ts'

export interface ListEvents extends PageParams {
  /** Such as `charge.succeeded`, `charge.*`. Default: all. */
  readonly types?: readonly string[] | null | undefined
}

const PATH = 'events'

export class Events {
  constructor(private readonly account: StripeAccount) {}

  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Event>> {
    return callStripe(this.account, {
      endpoint: pathOf(PATH, id),
      method: 'GET',
      send: (stripe) => stripe.events.retrieve(id),
    })
  }

  async list({ types, ...page }: ListEvents = {}): Promise<Page<Stripe.Event>> {
    checkNames('types', types)
    const params = given({ types: types && [...types], ...pageParams(page) })
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'GET',
      params,
      send: (stripe) => stripe.events.list(params),
    })
  }
}
