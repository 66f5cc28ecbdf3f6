"""A stranger's mistakes, which `mypy --strict` finds, each on its line."""

import hpclaunch

hpclaunch.submit("cifar", node=4)
hpclaunch.submit("cifar", nodes="4")
hpclaunch.submit("cifar", nodes=4).script()
hpclaunch.submit("cifar", dry_run=True).wait()
hpclaunch.plan("cifar", prefer="money")
hpclaunch.sbumit("cifar")
hpclaunch.run("x").metrics("epoch")[0].loss()
