/** https://docs.stripe.com/api/events */
import type Stripe from 'stripe'
import type { PageParams } from '../stripe-arguments.ts'
import { checkNames, given, pageParams, pathOf } from '../stripe-arguments.ts'
import type { Page, StripeAccount } from '../stripe-call.ts'
import { readStripe } from '../stripe-call.ts'

export interface ListEvents extends PageParams {
  /** Such as `charge.succeeded`, `charge.*`. Default: all. */
  readonly types?: readonly string[] | null | undefined
}

const PATH = 'events'

export class Events {
  constructor(private readonly account: StripeAccount) {}

  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Event>> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.events.retrieve(id))
  }

  async list({ types, ...page }: ListEvents = {}): Promise<Page<Stripe.Event>> {
    checkNames('types', types)
    const params = given({ types: types && [...types], ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.events.list(params), params)
  }
}
