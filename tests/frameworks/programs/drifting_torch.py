"""Lets two ranks of PyTorch drift apart in the ways that --ways names (drift_ways)."""

import torch

from hpclaunch.training import on_pytorch as training
from tests.frameworks.programs import drift_ways

settings = training.settings(
    epochs=1,
    batch_size_per_rank=8,
    learning_rate=0.05,
    **drift_ways.SETTINGS,
)


def network(units=4):
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(3, units), torch.nn.BatchNorm1d(units), torch.nn.Linear(units, 1))


def loss_of(scores, targets):
    return torch.nn.functional.mse_loss(scores[:, 0], targets)


def train(step, model=None, optimizer=None, kind=torch.optim.SGD, **options):
    """Train with `step`(loop, model, optimizer, inputs, targets), which ends each step of the loop."""
    model = model or network()
    optimizer = optimizer or kind(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data, **options)
    for inputs, targets in loop:
        step(loop, model, optimizer, inputs, targets)


def usual(loop, model, optimizer, inputs, targets):
    loop.step(loss_of(loop.model(inputs), targets))


def then(change):
    """The usual step, after which rank 1 alone calls `change`(model, optimizer)."""

    def step(loop, model, optimizer, inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(loop.model(inputs), targets)
        loss.backward()
        optimizer.step()
        if run.rank == 1:
            with torch.no_grad():
                change(model, optimizer)
        loop.made(loss)

    return step


def model_itself():
    train(lambda loop, model, optimizer, inputs, targets: loop.step(loss_of(model(inputs), targets)))


def model_itself_in_own_step():
    def step(loop, model, optimizer, inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loop.made(loss)

    train(step)


def model_beside_the_wrapper():
    def step(loop, model, optimizer, inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(loop.model(inputs), targets)
        loss.backward()
        loss_of(model(inputs), targets).backward()
        optimizer.step()
        loop.made(loss)

    train(step)


def never_synchronized():
    def step(loop, model, optimizer, inputs, targets):
        with loop.model.no_sync():
            loop.step(loss_of(loop.model(inputs), targets))

    train(step)


def rate_of_the_rank():
    def step(loop, model, optimizer, inputs, targets):
        optimizer.param_groups[0]["lr"] *= 1 + run.rank
        usual(loop, model, optimizer, inputs, targets)

    train(step)


def noise_in_the_weights():
    torch.manual_seed(run.rank)
    train(then(lambda model, optimizer: model[0].weight.add_(1e-6 * torch.randn(4, 3))))


def clipped_on_one_rank():
    train(then(lambda model, optimizer: model[0].weight.clamp_(-0.01, 0.01)))


def exchanged_weights():
    train(then(lambda model, optimizer: model[0].weight.copy_(model[0].weight.flip(0))))


def sign_of_zero():
    def step(loop, model, optimizer, inputs, targets):
        with torch.no_grad():
            model[2].bias.zero_()
            if run.rank:
                model[2].bias.neg_()
        loop.made(loss_of(loop.model(inputs), targets))

    train(step)


def left_out_step():
    def step(loop, model, optimizer, inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(loop.model(inputs), targets)
        loss.backward()
        if not run.rank:
            optimizer.step()
        loop.made(loss)

    train(step)


def moments_of_the_rank():
    train(
        then(lambda model, optimizer: optimizer.state[model[0].weight]["exp_avg"].zero_()),
        kind=torch.optim.Adam,
    )


def layer_after_the_loop():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), settings.learning_rate)
    loop = training.loop(run, model, optimizer, data)
    torch.manual_seed(run.rank)
    model[2] = torch.nn.Linear(4, 1)
    optimizer.add_param_group({"params": list(model[2].parameters())})
    loop._rates.append(1.0)
    for inputs, targets in loop:
        loop.made(loss_of(loop.model(inputs), targets))


def weights_of_another_seed():
    def step(loop, model, optimizer, inputs, targets):
        usual(loop, model, optimizer, inputs, targets)
        torch.manual_seed(run.rank)
        model[2].reset_parameters()

    train(step)


def gradient_of_the_rank():
    def step(loop, model, optimizer, inputs, targets):
        optimizer.zero_grad()
        loss = loss_of(loop.model(inputs), targets)
        loss.backward()
        model[0].weight.grad += 0.01 * inputs.mean()
        optimizer.step()
        loop.made(loss)

    train(step)


def other_width():
    train(usual, network(4 + run.rank))


def parameter_of_the_optimizer():
    own = torch.nn.Parameter(torch.full([1], 1.0 + run.rank))
    model = network()
    train(usual, model, torch.optim.SGD([*model.parameters(), own], settings.learning_rate))


with training.start(settings) as run:
    data = training.arrays(run, inputs="features", targets="price")
    drift_ways.run_all(run, settings, globals())
